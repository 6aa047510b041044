-- Joins: messages that are enqueued when several steps have ended.

-- name: join_start
-- Creates a join, unless it exists. Answers: 0 created, 1 exists already.
WITH added AS (
    INSERT INTO {join} (join_id, grouping_key, expected_steps, metadata, created_at, updated_at)
    SELECT $1, $2, $3::integer, $4, t.now, t.now FROM (SELECT coalesce($5::timestamptz, clock_timestamp()) AS now) t
    ON CONFLICT (join_id) DO NOTHING
    RETURNING 1)
SELECT CASE WHEN EXISTS (SELECT 1 FROM added) THEN 0 ELSE 1 END, NULL::text, 0

-- name: join_attach
-- Makes messages steps of a join. Locks the messages in order of sequence number, then the join.
SELECT CASE WHEN a.answer = 3 AND NOT EXISTS (
        SELECT 1 FROM unnest($2::text[]) AS u (id)
        WHERE NOT EXISTS (SELECT 1 FROM {join_member} m WHERE m.join_id = $1 AND m.event_id = u.id)) THEN 1 ELSE a.answer END,
    a.detail, a.fired
FROM {join_attach}($1, $2, coalesce($3::timestamptz, clock_timestamp())) a

-- name: join_report
-- Records that a step has ended. Locks the member, then the join.
SELECT answer, detail, fired FROM {join_report}($1, $2, $3::integer, coalesce($4::timestamptz, clock_timestamp()))

-- name: join_wait
-- Registers a wait: what happens when a join ends. Locks the join.
SELECT answer, detail, fired FROM {join_wait}($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9::timestamptz, clock_timestamp()))

-- name: join_cancel
-- Cancels a join and writes an audit entry. Locks the join. Answers: 0 changed, 1 cancelled before, 2 no such
-- join, 3 ended.
WITH t AS MATERIALIZED (SELECT coalesce($3::timestamptz, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT j.status FROM {join} j WHERE j.join_id = $1 FOR NO KEY UPDATE),
changed AS (
    UPDATE {join} j SET status = 3, updated_at = t.now FROM t
    WHERE j.join_id = $1 AND j.status = 0 AND 0 = (SELECT status FROM found)
    RETURNING j.join_id),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $2, 'cancel join', c.join_id FROM changed c, t)
SELECT CASE WHEN EXISTS (SELECT 1 FROM changed) THEN 0 ELSE coalesce((SELECT CASE status WHEN 3 THEN 1 ELSE 3 END FROM found), 2) END,
    (SELECT status::text FROM found), 0

-- name: join_show
-- One join with its first members, in one snapshot; no lock.
SELECT {join_columns}, ARRAY(SELECT event_id FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2),
    ARRAY(SELECT status FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2),
    ARRAY(SELECT created_at FROM {join_member} m WHERE m.join_id = $1 ORDER BY event_id LIMIT $2)
FROM {join} WHERE join_id = $1

-- name: join_list
-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE ($1::smallint IS NULL OR status = $1) ORDER BY created_at DESC, join_id DESC LIMIT $2

-- name: join_list_grouped
-- A page of the joins with one grouping key, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE ($1::smallint IS NULL OR status = $1) AND grouping_key = $3
ORDER BY created_at DESC, join_id DESC LIMIT $2
