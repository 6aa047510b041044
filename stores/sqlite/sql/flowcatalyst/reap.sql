-- Gives items back that were claimed before a time, those without a time by when they were written; under the write lock.
UPDATE {event} SET status = 'PENDING'
WHERE rowid IN (SELECT rowid FROM {event} WHERE status = 'PROCESSING' AND coalesce(processed_at, created_at) < ?1 LIMIT ?2)
