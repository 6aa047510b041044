-- Deletes one row that was written before a time, whatever its status; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND created_at < ?2
