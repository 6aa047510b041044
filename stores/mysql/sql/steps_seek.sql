-- The same of messages that were not found by their numbers: they may have got others, or are newer than what the caller's transaction sees.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND lane = -2 FOR UPDATE
