-- Pending rows that are due and under no live claim, but those of the queue; no lock.
SELECT {columns}, t.now FROM {event}, (SELECT coalesce($1, clock_timestamp()) AS now OFFSET 0) t
WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
    AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
ORDER BY seq LIMIT $3
