-- Brings one dead event back to new where it is; lock on its row.
UPDATE {event}
SET status = 0, attempts = 0, available_at = $2, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL,
    locked_at = NULL, locked_until = NULL
WHERE event_id = $1 AND status = 3
