-- The group that stands behind this event; under the write lock.
SELECT group_key, state FROM {group} WHERE event_id = ?1
