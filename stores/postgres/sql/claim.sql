-- Claiming rows under a lease, and reaping claims that have run out.

-- name: claim
-- Claims rows that are due, but those of the queue, in order; locks the rows it takes, skips those that others have locked. Those that
-- do not fit into the bytes that may be loaded are left as they are; they come in the order of the rows before them.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now, $6::bigint AS row_most, $7::bigint AS total),
due AS MATERIALIZED (
    SELECT seq, {counted} AS bytes, locked_at IS NOT NULL AS lapsed FROM {event} e, t
    WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
fitting AS (
    SELECT seq FROM (SELECT seq, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM due) d, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e
    SET locked_by = $4, locked_at = t.now, locked_until = t.now + $5 * interval '1 microsecond',
        lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + (locked_at IS NULL)::integer
    FROM t WHERE e.seq = ANY (ARRAY(SELECT seq FROM fitting)) AND e.status IN (0, 2)
    RETURNING {taken_columns}, CASE WHEN {bytes} <= t.row_most THEN e.last_error END AS last_error, {bytes} AS bytes,
        e.seq = ANY (ARRAY(SELECT seq FROM due WHERE lapsed)) AS lapsed)
SELECT * FROM taken ORDER BY seq

-- name: claim_queue
-- Claims rows of the queue that are due, by their time; locks the rows it takes, skips those that others have locked. Those that
-- do not fit into the bytes that may be loaded are left as they are; they come in the order of the rows before them.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now, $6::bigint AS row_most, $7::bigint AS total),
due AS MATERIALIZED (
    SELECT seq, {counted} AS bytes, locked_at IS NOT NULL AS lapsed FROM {event} e, t
    WHERE status IN (0, 2) AND lane = -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
        AND ($2::bigint IS NULL OR created_at <= t.now - $2 * interval '1 microsecond')
    ORDER BY available_at, seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
fitting AS (
    SELECT seq FROM (SELECT seq, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM due) d, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e
    SET locked_by = $4, locked_at = t.now, locked_until = t.now + $5 * interval '1 microsecond',
        lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + (locked_at IS NULL)::integer
    FROM t WHERE e.seq = ANY (ARRAY(SELECT seq FROM fitting)) AND e.status IN (0, 2)
    RETURNING {taken_columns}, CASE WHEN {bytes} <= t.row_most THEN e.last_error END AS last_error, {bytes} AS bytes,
        e.seq = ANY (ARRAY(SELECT seq FROM due WHERE lapsed)) AS lapsed)
SELECT * FROM taken ORDER BY available_at, seq

-- name: claim_topics
-- Claims messages of some topics that are due, by their time; locks the rows it takes, skips those that others have locked. The first of
-- each topic are found by the index and then put together, a few more than are wanted: others may have locked some of them. Sorted by
-- a pair, so that no plan goes through the backlog of other topics by its time. Those that do not fit into the bytes that may be loaded
-- are left as they are.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now, $6::bigint AS row_most, $7::bigint AS total),
near AS MATERIALIZED (
    SELECT n.seq FROM t, unnest($8::text[]) AS w (topic), LATERAL (
        SELECT e.seq, e.available_at FROM {event} e
        WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type = w.topic AND e.available_at <= t.now
            AND (e.locked_until IS NULL OR e.locked_until <= t.now)
            AND ($2::bigint IS NULL OR e.created_at <= t.now - $2 * interval '1 microsecond')
        ORDER BY e.available_at, e.seq LIMIT least($3, 100000) * 4) n
    ORDER BY n.available_at, n.seq LIMIT least($3, 100000) * 4),
due AS MATERIALIZED (
    SELECT e.seq, {counted} AS bytes, e.locked_at IS NOT NULL AS lapsed FROM {event} e, t
    WHERE e.seq = ANY (ARRAY(SELECT seq FROM near)) AND e.status IN (0, 2) AND e.lane = -2 AND e.available_at <= t.now
        AND (e.locked_until IS NULL OR e.locked_until <= t.now)
    ORDER BY (e.available_at, e.seq) LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
fitting AS (
    SELECT seq FROM (SELECT seq, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM due) d, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e
    SET locked_by = $4, locked_at = t.now, locked_until = t.now + $5 * interval '1 microsecond',
        lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + (locked_at IS NULL)::integer
    FROM t WHERE e.seq = ANY (ARRAY(SELECT seq FROM fitting)) AND e.status IN (0, 2)
    RETURNING {taken_columns}, CASE WHEN {bytes} <= t.row_most THEN e.last_error END AS last_error, {bytes} AS bytes,
        e.seq = ANY (ARRAY(SELECT seq FROM due WHERE lapsed)) AS lapsed)
SELECT * FROM taken ORDER BY available_at, seq

-- name: due_topics
-- Topics of messages that could be claimed, but these, from one to the next by the index; no lock.
WITH RECURSIVE t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
topic (name, nth) AS (
    (SELECT e.event_type::text, 1 FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 ORDER BY e.event_type LIMIT 1)
    UNION ALL
    SELECT (SELECT e.event_type::text FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type > topic.name
        ORDER BY e.event_type LIMIT 1), nth + 1
    FROM topic WHERE topic.name IS NOT NULL AND nth < 10000)
SELECT name FROM topic, t
WHERE name IS NOT NULL AND name <> ALL ($2::text[]) AND EXISTS (
    SELECT 1 FROM {event} e WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type = topic.name AND e.available_at <= t.now
        AND (e.locked_until IS NULL OR e.locked_until <= t.now))
LIMIT $3

-- name: reap
-- Takes claims away that ran out before a time; locks the rows, skips those that others have locked.
-- When a claim was made stays, for the next claim.
WITH before AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) - $2 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT seq FROM {event} e, before WHERE e.status IN (0, 2) AND e.locked_until <= before.at
    ORDER BY seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET locked_by = NULL, locked_until = NULL FROM before
    WHERE e.seq = ANY (ARRAY(SELECT seq FROM old)) AND e.status IN (0, 2) AND e.locked_until <= before.at
    RETURNING 1)
SELECT count(*) FROM back
