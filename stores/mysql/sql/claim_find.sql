-- Rows that are due, but those of the queue, in order; locks the rows it takes, skips those that others have locked.
SELECT {light_columns}, {now}, {claim_tail} FROM {event} FORCE INDEX (pending)
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ? FOR UPDATE SKIP LOCKED
