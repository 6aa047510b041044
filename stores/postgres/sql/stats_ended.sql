-- Counts of rows that have ended; no lock.
SELECT count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 3),
    count(*) FILTER (WHERE status = 1 AND done_at > statement_timestamp() - interval '1 minute')
FROM {event} WHERE status IN (1, 3)
