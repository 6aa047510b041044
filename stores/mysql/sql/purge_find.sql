-- Rows of one status that ended before a time; locks the rows, skips those that others have locked.
-- The dead head of a blocked group and the steps of open joins are left out.
SELECT seq, event_id FROM {event} e FORCE INDEX (agenda)
WHERE agenda = ? AND agenda_at < {now} - INTERVAL ? MICROSECOND
    AND (agenda = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
    AND (e.joined IS NULL OR NOT EXISTS (
        SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}
