-- Rows of any status that were written before a time, by number; under the write lock. The dead head of a blocked group and the
-- steps of open joins are left out.
SELECT seq, event_id FROM {event} WHERE created_at < ?1
    AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = {event}.event_id)
    AND (joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = {event}.event_id AND j.status = 0))
ORDER BY seq LIMIT ?2
