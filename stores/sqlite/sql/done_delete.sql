-- Deletes one pending row that is done, unless it has a message id or is or was a step of a join; under the write lock.
DELETE FROM {event}
WHERE seq = ?1 AND event_id = ?4 AND status IN (0, 2) AND message_id IS NULL AND joined IS NULL
    AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))
