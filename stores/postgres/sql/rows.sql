-- Rows: inserting them, reading pending rows in order with the horizon of a read, and promoting due rows.

-- name: insert
-- Inserts one row that neither waits nor expires; only row locks of the caller's transaction.
INSERT INTO {event} ({text_columns}, occurred_at, payload_bytes, available_at, created_at, lane)
SELECT {text_params}, $2::timestamptz, $3::bytea, t.now, t.now, $1::smallint
FROM (SELECT coalesce($4::timestamptz, statement_timestamp()) AS now) t
{once}
RETURNING event_id, seq, lane

-- name: insert_many
-- Inserts rows in the order of the arrays; only row locks of the caller's transaction.
INSERT INTO {event} ({text_columns}, occurred_at, due_at, expires_at, payload_bytes, available_at, created_at, lane)
SELECT {text_values}, w.occurred_at, w.due, w.expires, w.payload_bytes, greatest(w.now, w.due), w.now,
    CASE WHEN w.lane = -2 THEN -2 WHEN w.due > w.now THEN -1 ELSE w.lane END
FROM (SELECT r.*, t.now, coalesce(r.due_at, t.now + r.due_in * interval '1 microsecond') AS due,
        coalesce(r.expires_at, t.now + r.expires_in * interval '1 microsecond') AS expires
    FROM unnest($1::smallint[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::timestamptz[], $6::bigint[], $7::bytea[],
            {text_arrays})
        AS r (lane, occurred_at, due_at, due_in, expires_at, expires_in, payload_bytes, {text_columns}),
        (SELECT coalesce($8::timestamptz, statement_timestamp()) AS now) t) w
{once}
RETURNING event_id, seq, lane

-- name: insert_json
-- Inserts rows from one parameter, a JSON array, in its order, for any driver; only row
-- locks of the caller's transaction.
INSERT INTO {event} ({text_columns}, occurred_at, due_at, expires_at, payload_bytes, available_at, created_at, lane)
SELECT {text_values}, w.occurred_at, w.due, w.expires, w.payload_bytes, greatest(w.now, w.due), w.now,
    CASE WHEN w.lane = -2 THEN -2 WHEN w.due > w.now THEN -1 ELSE w.lane END
FROM (SELECT r.*, t.now, coalesce(r.due_at, t.now + r.due_in * interval '1 microsecond') AS due,
        coalesce(r.expires_at, t.now + r.expires_in * interval '1 microsecond') AS expires
    FROM json_to_recordset($1::text::json)
        AS r (lane smallint, occurred_at timestamptz, due_at timestamptz, due_in bigint, expires_at timestamptz, expires_in bigint,
            payload_bytes bytea, {text_definitions}),
        (SELECT statement_timestamp() AS now) t) w
{once}

-- name: written
-- The rows that have these message ids; no lock.
SELECT event_id, seq, lane, message_id FROM {event} WHERE message_id = ANY($1) AND message_id IS NOT NULL

-- name: alive
-- Fails if the transaction can only be rolled back; no lock.
SELECT 1

-- name: notify
-- Notifies other processes of new rows. Never runs in a writer's transaction, and does not wait for the disk.
SELECT pg_notify($1, ''), set_config('synchronous_commit', 'off', true)

-- name: fetch_slots
-- Pending rows of one range of slots above a sequence number, without contents that are too large to load at
-- once; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, clock_timestamp() AS now, {left_out} FROM {event}
WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4
ORDER BY seq LIMIT $5

-- name: fetch_ranges
-- Pending rows of the listed slots above a sequence number, without contents that are too large to load at
-- once; no lock. One range spans the shared slots and one spans the lanes.
SELECT * FROM (
    (SELECT {light_columns}, left(last_error, 4000) AS last_error, clock_timestamp() AS now, {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4 AND slot = ANY($7) ORDER BY seq LIMIT $8)
    UNION ALL
    (SELECT {light_columns}, left(last_error, 4000) AS last_error, clock_timestamp() AS now, {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $5 AND $6 AND slot = ANY($7) ORDER BY seq LIMIT $8)) r
ORDER BY seq LIMIT $8

-- name: fetch_group
-- Pending rows of one group from a sequence number on, without contents that are too large to
-- load at once, with the mark of the server's run and the file of the sequence, as in `horizon`; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, clock_timestamp() AS now, {left_out}, (SELECT {server_run}) AS run, (SELECT {sequence_file}) AS file FROM {event}
WHERE status IN (0, 2) AND seq >= $2 AND slot = $3 AND {group_key} = $4
ORDER BY seq LIMIT $5

-- name: fetch_due
-- Pending rows outside the queue that are due and under no live claim, without contents that are too large to
-- load at once; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, t.now, {left_out} FROM {event}, (SELECT coalesce($2, clock_timestamp()) AS now OFFSET 0) t
WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
    AND ($3::bigint IS NULL OR created_at <= t.now - $3 * interval '1 microsecond')
ORDER BY seq LIMIT $4

-- name: fetch_large
-- Pending rows by sequence number, with contents up to the size limit of a row; no lock.
SELECT {light_columns}, left(last_error, 4000) AS last_error, clock_timestamp() AS now, {left_out} FROM {event}
WHERE status IN (0, 2) AND seq = ANY($2)
ORDER BY seq

-- name: horizon
-- The last sequence number drawn, and the transactions that may still commit a number up to it; no lock.
-- The number is read first: a transaction that draws a number after that does not concern this horizon. The
-- test on s.number keeps that order.
-- A restarted sequence (TRUNCATE … RESTART IDENTITY, ALTER SEQUENCE … RESTART) gets a new file, so a restart
-- shows even if the sequence has passed the last number again. `setval` changes the sequence in place.
SELECT s.number, w.open, {server_run}, clock_timestamp(), {sequence_file}
FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS number FROM {sequence}) s,
    LATERAL (SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS open FROM pg_locks
        WHERE locktype = 'relation' AND relation = {event_name}::regclass AND granted AND pid IS DISTINCT FROM pg_backend_pid()
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') AND s.number >= 0) w

-- name: clock
-- The database's current time; no lock.
SELECT clock_timestamp()

-- name: next_due
-- The due time of the next delayed row; no lock.
SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 ORDER BY available_at, seq LIMIT 1

-- name: later_due
-- The due time of the next delayed row after a time; no lock.
SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 AND available_at > $1 ORDER BY available_at, seq LIMIT 1

-- name: promote
-- Moves due delayed rows to the end of the order, if the node is a member. Share lock on the node's row;
-- locks the rows and skips rows that others have locked.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $2 FOR KEY SHARE),
due AS MATERIALIZED (
    SELECT event_id, {group_key} IS NOT NULL AS grouped, (hashtext(coalesce({group_key}, event_id)) & 63)::smallint AS hashed FROM {event} e, t
    WHERE status IN (0, 2) AND lane = -1 AND available_at <= t.now AND EXISTS (SELECT 1 FROM me)
    ORDER BY available_at, seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
numbered AS MATERIALIZED (SELECT event_id, grouped, hashed, nextval({sequence_name}) AS number FROM due),
moved AS (
    UPDATE {event} e SET seq = n.number, lane = CASE WHEN $4 AND n.grouped THEN NULL ELSE $5::smallint END,
        slot = CASE WHEN $4 AND n.grouped THEN n.hashed ELSE coalesce($5::smallint, n.hashed) END
    FROM numbered n WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM due)) AND e.event_id = n.event_id
    RETURNING 1)
SELECT EXISTS (SELECT 1 FROM me), (SELECT count(*) FROM moved), t.now FROM t
