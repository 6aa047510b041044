-- Claims rows under a lease, and reaps claims that have run out.

-- name: claim
-- Claims due rows outside the queue, in order of sequence number. Locks the rows that it takes and skips rows
-- that others have locked.
-- Rows beyond the byte limit stay unclaimed; sizes are added up in that order.
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
-- Claims due messages of the queue, in order of due time: of all topics, of one, or of several. Locks the rows
-- that it takes and skips rows that others have locked.
-- One topic: the bounds mean "this topic and due", and leave the topic in the order, which only the index by topic
-- has. The planner can walk neither the backlog of other topics nor messages that are due later.
-- Several topics: finds the first messages of each by the index and merges them. It takes more candidates than
-- wanted, because others may have locked some of them. Sorting by a row value has the same reason as the bounds.
-- Rows beyond the byte limit stay unclaimed; sizes are added up in the order of due time, which is only needed
-- if they exceed the limit together. A row that is too large to load counts nothing and comes without contents;
-- only then the statement tells its size, which the client otherwise sees.
-- The result has no order: sorting whole rows on the server takes longer than on the client.
-- Does not wait for the disk: a claim that a crash of the server takes back is made again by whoever comes first.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now, set_config('synchronous_commit', 'off', true)),
{if several}near AS MATERIALIZED (
{if several}    SELECT n.seq FROM t, unnest($8::text[]) AS w (topic), LATERAL (
{if several}        SELECT e.seq, e.available_at FROM {event} e
{if several}        WHERE e.status IN (0, 2) AND e.lane = -2 AND e.event_type >= w.topic AND (e.event_type, e.available_at) <= (w.topic, t.now)
{if several}            AND (e.locked_until IS NULL OR e.locked_until <= t.now)
{if several}            AND ($2::bigint IS NULL OR e.created_at <= t.now - $2 * interval '1 microsecond')
{if several}        ORDER BY e.event_type, e.available_at, e.seq LIMIT least($3, 100000) * 2 + 200) n
{if several}    ORDER BY n.available_at, n.seq LIMIT least($3, 100000) * 2 + 200),
due AS MATERIALIZED (
    SELECT e.seq, least({bytes}, 2147483647)::int AS bytes, e.locked_at IS NOT NULL AS lapsed
    FROM {event} e
    WHERE e.status IN (0, 2) AND e.lane = -2 AND (e.locked_until IS NULL OR e.locked_until <= (SELECT now FROM t))
        AND ($2::bigint IS NULL OR e.created_at <= (SELECT now FROM t) - $2 * interval '1 microsecond')
{if all}        AND e.available_at <= (SELECT now FROM t)
{if all}    ORDER BY e.available_at, e.seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
{if one}        AND e.event_type >= $8 AND (e.event_type, e.available_at) <= ($8, (SELECT now FROM t))
{if one}    ORDER BY e.event_type, e.available_at, e.seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
{if several}        AND e.available_at <= (SELECT now FROM t) AND e.seq = ANY (ARRAY(SELECT seq FROM near))
{if several}    ORDER BY (e.available_at, e.seq) LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
whole AS MATERIALIZED (
    SELECT array_agg(seq) AS seqs, sum(bytes) FILTER (WHERE bytes <= $6::bigint) AS bytes,
        coalesce(array_agg(seq) FILTER (WHERE bytes > $6::bigint), '{}') AS large,
        coalesce(array_agg(seq) FILTER (WHERE lapsed), '{}') AS lapsed
    FROM due),
fitting AS (
    SELECT seq FROM (
        SELECT c.seq, sum(c.counted) OVER (ROWS UNBOUNDED PRECEDING) - c.counted AS before
        FROM (SELECT seq, CASE WHEN bytes <= $6::bigint THEN bytes ELSE 0 END AS counted FROM due) c) d
    WHERE before < $7::bigint)
UPDATE {event} e
SET locked_by = $4, locked_at = t.now, locked_until = t.now + $5 * interval '1 microsecond',
    lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + (locked_at IS NULL)::integer
FROM t, whole
WHERE e.seq = ANY (CASE WHEN (SELECT bytes FROM whole) >= $7::bigint THEN ARRAY(SELECT seq FROM fitting) ELSE (SELECT seqs FROM whole) END)
    AND e.status IN (0, 2)
RETURNING {claimed_columns}, CASE WHEN e.seq = ANY (whole.large) THEN NULL ELSE e.last_error END AS last_error,
    CASE WHEN e.seq = ANY (whole.large) THEN {bytes} END AS bytes, e.seq = ANY (whole.lapsed) AS lapsed

-- name: due_topics
-- Topics of claimable messages, except those in the list; no lock. Hops from one topic to
-- the next by the index.
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
-- Clears claims that ran out before a time. Locks the rows and skips rows that others have locked.
-- Keeps `locked_at`: it tells the next claim that an earlier claim lapsed.
WITH before AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) - $2 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT seq FROM {event} e, before WHERE e.status IN (0, 2) AND e.locked_until <= before.at
    ORDER BY seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET locked_by = NULL, locked_until = NULL FROM before
    WHERE e.seq = ANY (ARRAY(SELECT seq FROM old)) AND e.status IN (0, 2) AND e.locked_until <= before.at
    RETURNING 1)
SELECT count(*) FROM back
