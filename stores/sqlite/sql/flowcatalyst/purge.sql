-- Deletes one item that ended before a time, unless it was replayed; under the write lock.
DELETE FROM {event}
WHERE rowid = ?1 AND status = CASE ?2 WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END AND coalesce(processed_at, created_at) < ?3
