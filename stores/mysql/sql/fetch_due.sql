-- Pending rows that are due and under no live claim, but those of the queue; no lock.
SELECT {light_columns}, {now}, {left_out} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?
