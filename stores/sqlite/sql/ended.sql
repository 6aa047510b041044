-- Rows of one status that ended before a time, those without an end by when they were written; under the write lock. The dead
-- head of a blocked group and the steps of open joins are left out.
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at < ?2
        AND (?1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id))
        AND (joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
    ORDER BY done_at LIMIT ?3)
UNION ALL
SELECT seq, event_id FROM (
    SELECT seq, event_id FROM {event} INDEXED BY {event_ended}
    WHERE status IN (1, 3) AND status = ?1 AND done_at IS NULL AND created_at < ?2
        AND (?1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id))
        AND (joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
    LIMIT ?3)
LIMIT ?3
