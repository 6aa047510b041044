-- A page of the groups that are held back, from one on and after it; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} WHERE group_key >= {from} AND {after}
ORDER BY group_key LIMIT {limit}
