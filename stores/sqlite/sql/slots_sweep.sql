-- Makes lanes that have pending rows but no holder free to be taken; under the write lock.
INSERT OR IGNORE INTO {slot} (slot)
SELECT DISTINCT slot FROM {event} INDEXED BY {event_pending} WHERE status IN (0, 2) AND slot >= 64
