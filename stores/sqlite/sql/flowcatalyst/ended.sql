-- Items of one status that ended before a time, those without an end by when they were written; under the write lock.
SELECT rowid, id FROM {event}
WHERE status = CASE ?1 WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END AND coalesce(processed_at, created_at) < ?2 LIMIT ?3
