-- Whether messages can bear the mark of joins; no lock.
SELECT joined FROM {event} LIMIT 0
