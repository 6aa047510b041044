-- Puts a group behind its dead head; one that is paused remembers the event; under the write lock.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES (?1, 'blocked', ?2, ?3, 'engine', ?4)
ON CONFLICT (group_key) DO UPDATE SET event_id = excluded.event_id WHERE event_id IS NULL
