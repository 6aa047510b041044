-- Names the event that a held group waits for; lock on its row.
UPDATE {group} SET event_id = ? WHERE group_key = ?
