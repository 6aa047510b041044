-- Pending rows of one group from a number on, without contents that are too large to be loaded at once; no lock.
SELECT {light_columns}, clock_timestamp(), {left_out} FROM {event}
WHERE status IN (0, 2) AND seq >= $2 AND slot = $3 AND {group_key} = $4
ORDER BY seq LIMIT $5
