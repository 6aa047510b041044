-- When the next delayed row after a time is due; no lock.
SELECT agenda_at FROM {event} FORCE INDEX (agenda) WHERE agenda = -1 AND agenda_at > {now} ORDER BY agenda_at LIMIT 1
