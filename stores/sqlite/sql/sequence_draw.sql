-- Draws numbers so that no insert gets them; under the write lock.
UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = {event_name} COLLATE NOCASE
