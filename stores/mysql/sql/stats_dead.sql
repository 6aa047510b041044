-- Dead events by type, most first; no lock.
SELECT event_type, count(*) FROM {event} FORCE INDEX (agenda) WHERE agenda = 3 GROUP BY event_type ORDER BY count(*) DESC, event_type
