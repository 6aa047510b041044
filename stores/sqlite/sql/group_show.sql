-- One group, if it is held back; under the write lock.
SELECT state, event_id FROM {group} WHERE group_key = ?1
