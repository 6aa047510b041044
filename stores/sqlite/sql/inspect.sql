-- Queries for operators: lists, single events, statistics.

-- name: list
-- A page of events in ascending order, with or without contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq > ?7 ORDER BY seq LIMIT ?8

-- name: list_newest
-- A page of events in descending order, with or without contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq < ?7 ORDER BY seq DESC LIMIT ?8

-- name: show
-- One event, without contents if it was set aside for its size; no lock.
SELECT {shown_columns}, {record_columns} FROM {event} WHERE event_id = ?1

-- name: count
-- The number of matching events; no lock.
SELECT count(*) FROM {selected}

-- name: attempts
-- The failed attempts of one event; no lock.
SELECT number, failed_at, failed_by, error FROM {attempt} WHERE event_id = ?1 ORDER BY id

-- name: stats_pending
-- Counts of pending events and messages, and when the oldest due row was written; no lock.
SELECT count(*) FILTER (WHERE status = 0 AND slot <> -2), count(*) FILTER (WHERE status = 2 AND slot <> -2),
    count(*) FILTER (WHERE status = 0 AND slot = -2), count(*) FILTER (WHERE status = 2 AND slot = -2),
    count(*) FILTER (WHERE slot = -1), min(created_at) FILTER (WHERE available_at <= ?1)
FROM {event} INDEXED BY {event_pending} WHERE {pending}

-- name: stats_ended
-- Counts of done and dead events and messages, and of rows done after a time; no lock.
SELECT count(*) FILTER (WHERE status = 1 AND slot <> -2),
    count(*) FILTER (WHERE status = 3 AND slot <> -2)
        + (SELECT count(*) FROM {event} WHERE seq IN (SELECT seq FROM {oversized}) AND slot <> -2),
    count(*) FILTER (WHERE status = 1 AND slot = -2),
    count(*) FILTER (WHERE status = 3 AND slot = -2)
        + (SELECT count(*) FROM {event} WHERE seq IN (SELECT seq FROM {oversized}) AND slot = -2),
    count(*) FILTER (WHERE status = 1 AND done_at > ?1)
FROM {event} INDEXED BY {event_ended} WHERE status IN (1, 3)

-- name: stats_written
-- When rows were written, newest first, for a reader that stops early; no lock.
SELECT created_at FROM {event} ORDER BY seq DESC

-- name: stats_dead
-- Dead events by type, most frequent first; no lock.
SELECT event_type, count(*) FROM {event} WHERE {dead}
GROUP BY event_type ORDER BY count(*) DESC, event_type

-- name: stats_beside
-- Counts of free slots, blocked groups, paused groups and live nodes; no lock.
SELECT (SELECT count(*) FROM {slot} WHERE holder IS NULL), (SELECT count(*) FROM {group} WHERE state = 'blocked'),
    (SELECT count(*) FROM {group} WHERE state = 'paused'), (SELECT count(*) FROM {node} WHERE expires_at > ?1)
