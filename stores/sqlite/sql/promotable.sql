-- Delayed rows that are due, by their time; under the write lock.
SELECT seq, group_key IS NOT NULL FROM {event} INDEXED BY {event_delayed}
WHERE status IN (0, 2) AND lane = -1 AND available_at <= ?1
ORDER BY available_at, seq LIMIT ?2
