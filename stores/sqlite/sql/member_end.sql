-- Ends a message's pending steps in all its joins, and tells these; under the write lock.
UPDATE {join_member} SET status = ?2 WHERE event_id = ?1 AND status = 0 RETURNING join_id
