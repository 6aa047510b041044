-- Pending events that are under no live claim, and whether they bear the mark of joins; locks their rows, by the caller's transaction.
SELECT seq, event_id, joined IS NOT NULL FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status IN (0, 2) AND (locked_until IS NULL OR locked_until <= {now}) FOR UPDATE
