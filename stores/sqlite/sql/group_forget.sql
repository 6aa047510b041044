-- A paused group no longer stands behind an event; under the write lock.
UPDATE {group} SET event_id = NULL WHERE group_key = ?1
