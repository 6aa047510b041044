-- Which of these rows are pending, though they could not be locked; no lock.
SELECT seq, event_id FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND status IN (0, 2)
