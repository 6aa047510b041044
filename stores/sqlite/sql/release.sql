-- Gives one pending row back untouched, a claim's attempt with it; under the write lock.
UPDATE {event}
SET attempts = CASE WHEN locked_by IS NOT NULL AND attempts > 0 THEN attempts - 1 ELSE attempts END,
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))
