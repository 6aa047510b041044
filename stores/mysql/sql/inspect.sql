-- Queries for operators: lists, single events, statistics.

-- name: list
-- A page of events in ascending order, with or without contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq > ? ORDER BY seq LIMIT ?

-- name: list_newest
-- A page of events in descending order, with or without contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq < ? ORDER BY seq DESC LIMIT ?

-- name: show
-- One event; no lock.
SELECT {columns}, {record_columns} FROM {event} WHERE event_id = ?

-- name: count
-- The number of matching events; no lock.
SELECT count(*) FROM {selected}

-- name: attempts
-- The failed attempts of one event; no lock.
SELECT number, failed_at, failed_by, error FROM {attempt} WHERE event_id = ? ORDER BY id

-- name: stats_pending
-- Counts of pending events and messages, and when the oldest due row was written; no lock.
SELECT count(CASE WHEN status = 0 AND slot <> -2 THEN 1 END), count(CASE WHEN status = 2 AND slot <> -2 THEN 1 END),
    count(CASE WHEN status = 0 AND slot = -2 THEN 1 END), count(CASE WHEN status = 2 AND slot = -2 THEN 1 END),
    count(CASE WHEN slot = -1 THEN 1 END), min(CASE WHEN available_at <= utc_timestamp(6) THEN created_at END), utc_timestamp(6)
FROM {event} FORCE INDEX (pending) WHERE pending = 1

-- name: stats_ended
-- Counts of done and dead events and messages, and of rows done and written in the last minute, in one pass; no lock.
SELECT count(CASE WHEN status = 1 AND slot <> -2 THEN 1 END), count(CASE WHEN status = 3 AND slot <> -2 THEN 1 END),
    count(CASE WHEN status = 1 AND slot = -2 THEN 1 END), count(CASE WHEN status = 3 AND slot = -2 THEN 1 END),
    count(CASE WHEN agenda = 1 AND agenda_at > utc_timestamp(6) - INTERVAL 1 MINUTE THEN 1 END),
    count(CASE WHEN created_at > utc_timestamp(6) - INTERVAL 1 MINUTE THEN 1 END)
FROM {event}

-- name: stats_dead
-- Dead events by type, most frequent first; no lock.
SELECT event_type, count(*) FROM {event} FORCE INDEX (agenda) WHERE agenda = 3 GROUP BY event_type ORDER BY count(*) DESC, event_type

-- name: stats_beside
-- Counts of free slots, blocked groups, paused groups and live nodes; no lock.
SELECT (SELECT count(*) FROM {slot} WHERE holder IS NULL), (SELECT count(*) FROM {group} WHERE state = 'blocked'),
    (SELECT count(*) FROM {group} WHERE state = 'paused'), (SELECT count(*) FROM {node} WHERE expires_at > utc_timestamp(6))
