-- Ends a pending join; under the write lock.
UPDATE {join} SET status = ?2, fired_id = ?3, updated_at = ?4 WHERE join_id = ?1 AND status = 0
