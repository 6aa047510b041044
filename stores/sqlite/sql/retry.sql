-- Sets one pending row up for another attempt, in place or in lane -1; under the write lock.
UPDATE {event}
SET status = 2, available_at = ?2, last_error = ?3, attempts = max(attempts + ?4, 0),
    lane = CASE WHEN ?5 AND lane IS NOT -2 THEN -1 ELSE lane END, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?8 AND status IN (0, 2) AND (?6 IS NULL OR (locked_by = ?6 AND lock_token = ?7))
