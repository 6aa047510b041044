-- A page of the groups that are held back, from ?1 on and after ?2; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group}
WHERE group_key >= ?1 AND (?2 IS NULL OR group_key > ?2) ORDER BY group_key LIMIT ?3
