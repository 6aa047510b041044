-- Pending rows that are due and under no live claim, but those of the queue; no lock.
SELECT {columns} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND slot <> -2 AND (available_at <= ?1 OR typeof(available_at) = 'text')
    AND (created_at <= ?2 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY seq LIMIT ?3
