-- Rows of one status that ended before a time; locks the rows, skips those that others have locked.
SELECT seq, event_id FROM {event} FORCE INDEX (agenda)
WHERE agenda = ? AND agenda_at < {now} - INTERVAL ? MICROSECOND ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}
