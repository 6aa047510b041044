-- Locks one row to an owner and counts the attempt, unless a claim that ran out has counted it; under the write lock.
UPDATE {event}
SET locked_by = ?2, locked_at = ?3, locked_until = ?4, lock_token = lock_token + 1, attempts = attempts + (locked_at IS NULL)
WHERE seq = ?1
