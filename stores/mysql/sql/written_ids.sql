-- The rows that have these ids; no lock.
SELECT event_id, seq, lane FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})
