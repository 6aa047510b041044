-- Counts of items that have ended; no lock.
SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'FAILED'),
    count(*) FILTER (WHERE status = 'COMPLETED' AND processed_at > statement_timestamp() AT TIME ZONE 'UTC' - interval '1 minute')
FROM {event} WHERE status IN ('COMPLETED', 'FAILED')
