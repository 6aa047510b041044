-- Makes lanes that have pending rows but no holder free to be taken; under the membership lock.
INSERT IGNORE INTO {slot} (slot) SELECT DISTINCT slot FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND slot >= 64
