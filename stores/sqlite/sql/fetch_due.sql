-- Pending rows that are due and under no live claim, but those of the queue, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND slot <> -2 AND (available_at <= ?2 OR typeof(available_at) = 'text')
    AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY seq LIMIT ?4
