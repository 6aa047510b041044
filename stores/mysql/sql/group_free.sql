-- Lets a group go; lock on its row.
DELETE FROM {group} WHERE group_key = ?
