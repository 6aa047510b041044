-- How many of the numbers of a range are committed, and the last of these; no lock.
SELECT count(*), coalesce(max(seq), 0) FROM {event} FORCE INDEX (PRIMARY) WHERE seq > ? AND seq <= ?
