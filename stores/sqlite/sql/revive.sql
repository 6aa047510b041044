-- Brings one dead event back to new; under the write lock.
UPDATE {event}
SET status = 0, attempts = 0, available_at = ?2, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL,
    locked_at = NULL, locked_until = NULL
WHERE seq = ?1 AND status = 3
