-- Delayed rows that are due, in their order; locks the rows, skips those that others have locked.
SELECT seq, event_id, lane, {group_key} IS NOT NULL FROM {event} FORCE INDEX (agenda)
WHERE agenda = -1 AND agenda_at <= {now} ORDER BY agenda_at, seq LIMIT ? FOR UPDATE {skip_locked}
