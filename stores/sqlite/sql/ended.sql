-- Rows of one status that ended before a time, those without an end by when they were written; under the write lock.
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at < ?2 ORDER BY done_at LIMIT ?3)
UNION ALL
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at IS NULL AND created_at < ?2 LIMIT ?3)
LIMIT ?3
