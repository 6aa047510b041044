-- Counts of pending rows, and when the oldest that is due was written; no lock.
SELECT count(CASE WHEN status = 0 THEN 1 END), count(CASE WHEN status = 2 THEN 1 END), count(CASE WHEN slot = -1 THEN 1 END),
    count(CASE WHEN slot = -2 THEN 1 END), min(CASE WHEN available_at <= utc_timestamp(6) THEN created_at END), utc_timestamp(6)
FROM {event} FORCE INDEX (pending) WHERE pending = 1
