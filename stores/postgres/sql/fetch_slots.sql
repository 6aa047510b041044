-- Pending rows of one range of slots above a number; no lock.
SELECT {columns}, clock_timestamp() FROM {event}
WHERE status IN (0, 2) AND seq > $1 AND slot BETWEEN $2 AND $3
ORDER BY seq LIMIT $4
