-- Notes why one pending row waits; under the write lock.
UPDATE {event} SET last_error = ?5
WHERE seq = ?1 AND (event_id = ?4 OR {id_in_hex} = ?4) AND status IN (0, 2) AND (?2 IS NULL OR (locked_by = ?2 AND lock_token = ?3))
