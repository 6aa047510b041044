-- The rows that have these message ids; no lock.
SELECT event_id, seq, lane, message_id FROM {event} WHERE message_id = ANY($1) AND message_id IS NOT NULL
