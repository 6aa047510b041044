-- Rows of the queue that can be claimed, by their time; under the write lock.
SELECT {columns} FROM {event} INDEXED BY {event_queue}
WHERE status IN (0, 2) AND lane = -2 AND available_at <= ?1 AND (created_at <= ?2 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY available_at, seq LIMIT ?3
