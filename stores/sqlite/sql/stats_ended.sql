-- Counts of rows that have ended, from the index alone; no lock.
SELECT count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 3),
    count(*) FILTER (WHERE status = 1 AND done_at > ?1)
FROM {event} INDEXED BY {event_ended} WHERE status IN (1, 3)
