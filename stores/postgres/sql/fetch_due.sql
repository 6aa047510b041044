-- Pending rows that are due and under no live claim, but those of the queue, without contents that are too large to be loaded
-- at once; no lock.
SELECT {light_columns}, t.now, {left_out} FROM {event}, (SELECT coalesce($2, clock_timestamp()) AS now OFFSET 0) t
WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
    AND ($3::bigint IS NULL OR created_at <= t.now - $3 * interval '1 microsecond')
ORDER BY seq LIMIT $4
