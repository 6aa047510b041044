-- Adds members to what a join counts; under the write lock.
UPDATE {join}
SET attached_steps = attached_steps + ?2, completed_steps = completed_steps + ?3, failed_steps = failed_steps + ?4, updated_at = ?5
WHERE join_id = ?1
