-- Pending rows that are due and under no live claim, but those of the queue; no lock.
SELECT {columns} FROM {event} INDEXED BY {event_pending}
WHERE status IN (0, 2) AND slot <> -2 AND available_at <= ?1 AND created_at <= ?2
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY seq LIMIT ?3
