-- Rows of any status that were written before a time, by number; under the write lock.
SELECT seq, event_id FROM {event} WHERE created_at < ?1 ORDER BY seq LIMIT ?2
