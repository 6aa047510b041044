-- Lets a group go; under the write lock.
DELETE FROM {group} WHERE group_key = ?1
