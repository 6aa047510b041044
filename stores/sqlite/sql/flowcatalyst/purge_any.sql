-- Deletes one item that was written before a time, whatever its status; under the write lock.
DELETE FROM {event} WHERE rowid = ?1 AND created_at < ?2
