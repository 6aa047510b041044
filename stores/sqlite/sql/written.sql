-- The row that has this message id; no lock.
SELECT event_id, seq, lane IS -1 FROM {event} WHERE message_id = ?1 AND message_id IS NOT NULL
