-- Deletes one dead event; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND status = 3
