-- Ends a pending step of one join; under the write lock.
UPDATE {join_member} SET status = ?3 WHERE join_id = ?1 AND event_id = ?2 AND status = 0
