-- Those of these groups that are held back; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} WHERE group_key = ANY ($1::text[]) ORDER BY group_key
