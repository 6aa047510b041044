-- Pending rows as they are before they are settled, in order; locks them, skips those that others have locked where that can be and
-- is wanted.
SELECT seq, event_id, status, attempts, lane, locked_by, lock_token, message_id IS NOT NULL, joined IS NOT NULL
FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2) ORDER BY seq FOR UPDATE {skip_locked}
