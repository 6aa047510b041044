-- Dead events by type, most first; no lock.
SELECT event_type, count(*) FROM {event} WHERE status IN (1, 3) AND status = 3
GROUP BY event_type ORDER BY count(*) DESC, event_type
