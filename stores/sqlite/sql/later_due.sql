-- When the next delayed row after a time is due; no lock.
SELECT min(available_at) FROM {event} INDEXED BY {event_delayed} WHERE status IN (0, 2) AND lane = -1 AND available_at > ?1
