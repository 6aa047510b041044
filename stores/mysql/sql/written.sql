-- The rows that have these message ids, as they are now; share locks on them, in the caller's transaction.
SELECT event_id, seq, lane, message_id FROM {event} FORCE INDEX (message_id) WHERE message_id IN ({ids}) LOCK IN SHARE MODE
