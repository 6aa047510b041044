-- Inserts rows, and finds rows whose message id exists already.

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
