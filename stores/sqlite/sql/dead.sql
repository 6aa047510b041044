-- Gives one pending row up, and notes by whose claim; under the write lock.
UPDATE {event}
SET status = 3, done_at = ?2, last_error = ?3, attempts = max(attempts + ?4, 0), processed_by = coalesce(?5, processed_by),
    locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND (event_id = ?7 OR {id_in_hex} = ?7) AND status IN (0, 2) AND (?5 IS NULL OR (locked_by = ?5 AND lock_token = ?6))
