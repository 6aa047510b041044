-- Makes lanes that have pending rows but no holder free to be taken; under the membership lock.
INSERT INTO {slot} (slot) SELECT DISTINCT slot FROM {event} WHERE status IN (0, 2) AND slot >= 64
ON CONFLICT (slot) DO NOTHING
