-- Rows that were written before a time, whatever their status; locks the rows, skips those that others have locked.
-- The dead head of a blocked group and the steps of open joins are left out.
SELECT seq, event_id FROM {event} e WHERE created_at < {now} - INTERVAL ? MICROSECOND
    AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id)
    AND (e.joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
LIMIT ? FOR UPDATE {skip_locked}
