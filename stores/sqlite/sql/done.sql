-- Marks one pending row done, and by whose claim; under the write lock.
UPDATE {event}
SET status = 1, done_at = ?2, processed_by = coalesce(?3, processed_by), locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND event_id = ?5 AND status IN (0, 2) AND (?3 IS NULL OR (locked_by = ?3 AND lock_token = ?4))
