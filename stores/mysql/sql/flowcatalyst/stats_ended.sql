-- Counts of items that have ended; no lock.
SELECT count(CASE WHEN status = 'COMPLETED' THEN 1 END), count(CASE WHEN status = 'FAILED' THEN 1 END),
    count(CASE WHEN status = 'COMPLETED' AND processed_at > utc_timestamp(6) - INTERVAL 1 MINUTE THEN 1 END)
FROM {event} WHERE status IN ('COMPLETED', 'FAILED')
