-- Puts one pending row off to lane -1, but those of the queue; under the write lock.
UPDATE {event}
SET lane = CASE WHEN lane IS -2 THEN -2 ELSE -1 END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))
