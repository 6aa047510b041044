-- Dead events of a selection, oldest first; locks their rows.
SELECT seq, event_id, lane, {group_key} IS NOT NULL FROM {selected} AND status = 3
ORDER BY seq LIMIT ? FOR UPDATE
