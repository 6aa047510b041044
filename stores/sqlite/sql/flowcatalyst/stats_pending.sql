-- Counts of items that have not ended, and when the oldest that waits was written; no lock.
SELECT count(*) FILTER (WHERE retry_count <= 0), count(*) FILTER (WHERE retry_count > 0), 0, 0,
    min(created_at) FILTER (WHERE status = 'PENDING' AND ?1 IS NOT NULL)
FROM {event} WHERE status IN ('PENDING', 'PROCESSING')
