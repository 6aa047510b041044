-- Pending rows of the slots in a list above a number, by a range of groups' slots and one of lanes, without contents that are
-- too large to be loaded at once; no lock.
SELECT * FROM (
    (SELECT {light_columns}, clock_timestamp(), {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4 AND slot = ANY($7) ORDER BY seq LIMIT $8)
    UNION ALL
    (SELECT {light_columns}, clock_timestamp(), {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $5 AND $6 AND slot = ANY($7) ORDER BY seq LIMIT $8)) r
ORDER BY seq LIMIT $8
