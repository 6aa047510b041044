-- Counts of items that have not ended, and when the oldest that waits was written; no lock.
SELECT count(CASE WHEN retry_count <= 0 THEN 1 END), count(CASE WHEN retry_count > 0 THEN 1 END), 0, 0,
    min(CASE WHEN status = 'PENDING' THEN created_at END), utc_timestamp(6)
FROM {event} WHERE status IN ('PENDING', 'PROCESSING')
