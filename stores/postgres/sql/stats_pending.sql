-- Counts of pending rows, and when the oldest that is due was written; no lock.
SELECT count(*) FILTER (WHERE status = 0), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE slot = -1),
    count(*) FILTER (WHERE slot = -2), min(created_at) FILTER (WHERE available_at <= clock_timestamp()), clock_timestamp()
FROM {event} WHERE status IN (0, 2)
