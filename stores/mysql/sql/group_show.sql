-- One group, if it is held back; locks its row.
SELECT state, event_id FROM {group} WHERE group_key = ? FOR UPDATE
