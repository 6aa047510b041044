-- Pending rows of the slots in a list above a number, by a range of groups' slots and one of lanes; no lock.
SELECT * FROM (
    (SELECT {columns}, clock_timestamp() FROM {event}
    WHERE status IN (0, 2) AND seq > $1 AND slot BETWEEN $2 AND $3 AND slot = ANY($6) ORDER BY seq LIMIT $7)
    UNION ALL
    (SELECT {columns}, clock_timestamp() FROM {event}
    WHERE status IN (0, 2) AND seq > $1 AND slot BETWEEN $4 AND $5 AND slot = ANY($6) ORDER BY seq LIMIT $7)) r
ORDER BY seq LIMIT $7
