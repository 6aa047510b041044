-- Deletes one pending event that is under no live claim, and tells whether it is or was a step of a join; under the write lock.
DELETE FROM {event} WHERE event_id = ?1 AND status IN (0, 2) AND (locked_until IS NULL OR locked_until <= ?2)
RETURNING joined IS NOT NULL
