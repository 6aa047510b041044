-- Messages of one topic that can be claimed, by their time, without what is in them; under the write lock.
SELECT CAST(available_at AS INTEGER), seq FROM {event} INDEXED BY {event_topic}
WHERE status IN (0, 2) AND lane = -2 AND event_type = ?4 AND available_at <= ?1 AND (created_at <= ?2 OR typeof(created_at) = 'text')
    AND (locked_until IS NULL OR locked_until <= ?1)
ORDER BY available_at, seq LIMIT ?3
