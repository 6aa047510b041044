-- Holds a group back as an operator said; lock on its row.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (group_key) DO UPDATE
SET state = excluded.state, reason = excluded.reason, held_by = excluded.held_by, since = excluded.since
