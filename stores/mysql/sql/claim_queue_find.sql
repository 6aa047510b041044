-- Rows of the queue that are due, by their time; locks the rows it takes, skips those that others have locked.
SELECT {light_columns}, {now}, {claim_tail} FROM {event} FORCE INDEX (agenda)
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ? FOR UPDATE SKIP LOCKED
