-- Brings dead events back to new where they are, each with a token, by which a settle knows that it may have attempts on record; locks on
-- their rows.
UPDATE {event} FORCE INDEX (event_id)
SET status = 0, attempts = 0, available_at = {now}, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL, locked_at = NULL,
    locked_until = NULL, lock_token = coalesce(lock_token, 0)
WHERE event_id IN ({ids}) AND status = 3
