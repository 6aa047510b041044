-- Failed items by type, most first; no lock.
SELECT type, count(*) FROM {event} WHERE status = 'FAILED' GROUP BY type ORDER BY count(*) DESC, type
