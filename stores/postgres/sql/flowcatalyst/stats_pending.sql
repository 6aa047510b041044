-- Counts of items that have not ended, and when the oldest that waits was written; no lock.
SELECT count(*) FILTER (WHERE retry_count <= 0), count(*) FILTER (WHERE retry_count > 0), 0::bigint, 0::bigint,
    min(created_at) FILTER (WHERE status = 'PENDING') AT TIME ZONE 'UTC', clock_timestamp()
FROM {event} WHERE status IN ('PENDING', 'PROCESSING')
