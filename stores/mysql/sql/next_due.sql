-- When the next delayed row is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at IS NOT NULL ORDER BY agenda_at LIMIT 1
