-- The numbers of messages, by which they are locked; no lock.
SELECT seq FROM {event} FORCE INDEX (event_id) WHERE event_id IN ({ids})
