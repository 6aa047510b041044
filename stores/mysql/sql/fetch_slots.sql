-- Pending rows of ranges of slots above a number; no lock.
SELECT {light_columns}, {now}, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND seq > ? AND ({slots})
ORDER BY seq LIMIT ?
