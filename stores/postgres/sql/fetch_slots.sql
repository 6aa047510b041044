-- Pending rows of one range of slots above a number, without contents that are too large to be loaded at once; no lock.
SELECT {light_columns}, clock_timestamp(), {left_out} FROM {event}
WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4
ORDER BY seq LIMIT $5
