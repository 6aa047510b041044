-- Moves the end of the claim on one pending row; under the write lock.
UPDATE {event} SET locked_until = ?2
WHERE seq = ?1 AND (event_id = ?5 OR {id_in_hex} = ?5) AND status IN (0, 2) AND locked_by IS NOT NULL AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))
