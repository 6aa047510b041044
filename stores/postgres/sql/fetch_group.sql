-- Pending rows of one group from a number on; no lock.
SELECT {columns}, clock_timestamp() FROM {event}
WHERE status IN (0, 2) AND seq >= $1 AND slot = $2 AND {group_key} = $3
ORDER BY seq LIMIT $4
