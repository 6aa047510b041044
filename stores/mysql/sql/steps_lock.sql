-- How messages of the queue stand, in the order of their numbers; locks them.
SELECT event_id, seq, status, joined IS NOT NULL FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND event_id IN ({ids}) AND lane = -2 ORDER BY seq FOR UPDATE
