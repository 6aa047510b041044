-- Read-only queries for operators: lists, single events, statistics.

-- name: list
-- A page of events, ascending, with or without their contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq > $7 ORDER BY seq LIMIT $8

-- name: list_newest
-- A page of events, descending, with or without their contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq < $7 ORDER BY seq DESC LIMIT $8

-- name: show
-- One event; no lock.
SELECT {columns}, {record_columns} FROM {event} WHERE event_id = $1

-- name: count
-- The number of matching events; no lock.
SELECT count(*) FROM {selected}

-- name: attempts
-- The failed attempts of one event; no lock.
SELECT number, failed_at, failed_by, error FROM {attempt} WHERE event_id = $1 ORDER BY id

-- name: nodes
-- All nodes in the order of registration, with the number of slots that each holds; no lock. Tables of an
-- earlier release have no column `state`.
SELECT node_id, label, lane, joined_at, expires_at, (SELECT count(*) FROM {slot} WHERE holder = node_id), clock_timestamp(),
    to_jsonb(n) ->> 'state'
FROM {node} n ORDER BY joined_at, node_id

-- name: open_transactions
-- Transactions of other sessions that have written to the table or locked rows of it, and whether each has
-- locked the row of an event, whose xmax is then its number; those first, then the oldest; no lock. Rights
-- decide which times and names the server shows.
SELECT coalesce(l.pid::text, 'prepared'), a.application_name, a.xact_start, l.locks_row
FROM (SELECT w.pid, coalesce(bool_or(EXISTS (SELECT 1 FROM pg_locks x WHERE x.locktype = 'transactionid' AND x.granted
            AND x.mode = 'ExclusiveLock' AND x.virtualtransaction = w.virtualtransaction
            AND x.transactionid = (SELECT xmax FROM {event} WHERE {id_column} = $1))), false) AS locks_row
    FROM pg_locks w
    WHERE w.locktype = 'relation' AND w.relation = {event_name}::regclass AND w.granted AND w.pid IS DISTINCT FROM pg_backend_pid()
        AND w.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND w.mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    GROUP BY w.virtualtransaction, w.pid) l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
ORDER BY l.locks_row DESC, a.xact_start NULLS LAST, l.pid LIMIT $2

-- name: stats_pending
-- Counts of pending events and messages, and the creation time of the oldest row that is due; no lock.
SELECT count(*) FILTER (WHERE status = 0 AND slot <> -2), count(*) FILTER (WHERE status = 2 AND slot <> -2),
    count(*) FILTER (WHERE status = 0 AND slot = -2), count(*) FILTER (WHERE status = 2 AND slot = -2),
    count(*) FILTER (WHERE slot = -1), min(created_at) FILTER (WHERE available_at <= clock_timestamp()), clock_timestamp()
FROM {event} WHERE status IN (0, 2)

-- name: stats_ended
-- Counts of done and dead events and messages, and of rows done and written in the last minute, in one pass; no lock.
SELECT count(*) FILTER (WHERE status = 1 AND slot <> -2), count(*) FILTER (WHERE status = 3 AND slot <> -2),
    count(*) FILTER (WHERE status = 1 AND slot = -2), count(*) FILTER (WHERE status = 3 AND slot = -2),
    count(*) FILTER (WHERE status = 1 AND done_at > statement_timestamp() - interval '1 minute'),
    count(*) FILTER (WHERE created_at > statement_timestamp() - interval '1 minute')
FROM {event}

-- name: stats_dead
-- Dead events by type, most first; no lock.
SELECT event_type, count(*) FROM {event} WHERE status IN (1, 3) AND status = 3
GROUP BY event_type ORDER BY count(*) DESC, event_type

-- name: stats_beside
-- Counts of the tables beside the event table; no lock.
SELECT (SELECT count(*) FROM {slot} WHERE holder IS NULL), (SELECT count(*) FROM {group} WHERE state = 'blocked'),
    (SELECT count(*) FROM {group} WHERE state = 'paused'), (SELECT count(*) FROM {node} WHERE expires_at > clock_timestamp())
