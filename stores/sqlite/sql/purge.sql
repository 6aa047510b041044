-- Deletes one row that ended before a time, unless it was replayed; under the write lock.
DELETE FROM {event} WHERE seq = ?1 AND status = ?2 AND coalesce(done_at, created_at) < ?3
