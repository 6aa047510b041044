-- Rows of the queue that can be claimed, by their time, without contents that are larger than a row may be; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL FROM {event} INDEXED BY {event_queue}
WHERE status IN (0, 2) AND lane = -2 AND available_at <= ?2 AND (created_at <= ?3 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?2)
ORDER BY available_at, seq LIMIT ?4
