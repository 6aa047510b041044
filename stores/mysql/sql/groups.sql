-- All groups that are held back; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} ORDER BY group_key
