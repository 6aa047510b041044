-- Counts of rows that have ended; no lock.
SELECT (SELECT count(*) FROM {event} FORCE INDEX (agenda) WHERE agenda = 1), (SELECT count(*) FROM {event} FORCE INDEX (agenda) WHERE agenda = 3),
    (SELECT count(*) FROM {event} FORCE INDEX (agenda) WHERE agenda = 1 AND agenda_at > utc_timestamp(6) - INTERVAL 1 MINUTE)
