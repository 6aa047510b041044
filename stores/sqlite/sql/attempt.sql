-- Counts the attempt that is about to be made on one pending row; under the write lock.
UPDATE {event} SET attempts = attempts + 1
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))
