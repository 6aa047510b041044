-- Gives items back that were claimed before a time, or all, but for those that the leader has in hand; under the write lock.
UPDATE {event} SET status = 'PENDING'
WHERE rowid IN (
    SELECT rowid FROM {event}
    WHERE status = 'PROCESSING' AND (?1 IS NULL OR coalesce(processed_at, created_at) < ?1)
        AND id NOT IN (SELECT value FROM json_each(?2))
    LIMIT ?3)
