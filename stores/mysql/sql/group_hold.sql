-- Holds a group back, or back for another reason; lock on its row.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES (?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE state = VALUES(state), reason = VALUES(reason), held_by = VALUES(held_by), since = VALUES(since)
