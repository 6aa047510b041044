-- A page of the groups that are held back, after $1; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group}
WHERE group_key >= coalesce($1, '') AND ($1::text IS NULL OR group_key > $1) ORDER BY group_key LIMIT $2
