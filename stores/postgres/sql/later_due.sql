-- When the next delayed row after a time is due; no lock.
SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 AND available_at > $1 ORDER BY available_at, seq LIMIT 1
