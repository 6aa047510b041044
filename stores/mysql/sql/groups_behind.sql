-- The groups that events hold back; locks their rows.
SELECT group_key, state, event_id FROM {group} FORCE INDEX (event_id) WHERE event_id IN ({ids}) ORDER BY group_key FOR UPDATE
