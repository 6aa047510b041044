-- Pending events that are under no live claim; locks their rows, by the caller's transaction.
SELECT seq, event_id FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status IN (0, 2) AND (locked_until IS NULL OR locked_until <= {now}) FOR UPDATE
