-- Operator actions: groups, replays, cancels and purges, and the audit entries of all of them.

-- name: groups
-- A page of held groups, after $1; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group}
WHERE group_key >= coalesce($1, '') AND ($1::text IS NULL OR group_key > $1) ORDER BY group_key LIMIT $2

-- name: groups_named
-- The held groups among these; no lock.
SELECT group_key, state, event_id, reason, held_by, since FROM {group} WHERE group_key = ANY ($1::text[]) ORDER BY group_key

-- name: group_show
-- One group, if it is held; locks its row.
SELECT state, event_id FROM {group} WHERE group_key = $1 FOR UPDATE

-- name: group_hold
-- Holds a group, as an operator asked; locks its row.
INSERT INTO {group} (group_key, state, event_id, reason, held_by, since) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (group_key) DO UPDATE
SET state = excluded.state, reason = excluded.reason, held_by = excluded.held_by, since = excluded.since

-- name: group_free
-- Frees a group; locks its row.
DELETE FROM {group} WHERE group_key = $1

-- name: epoch
-- The epoch of group states; no lock.
SELECT value FROM {meta} WHERE name = 'groups_epoch'

-- name: epoch_grow
-- Raises the epoch, which tells nodes that group states have changed; locks its row.
UPDATE {meta} SET value = value + 1 WHERE name = 'groups_epoch'

-- name: revive
-- Makes one dead event pending again in its old place; locks its row.
UPDATE {event}
SET status = 0, attempts = 0, available_at = $2, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL,
    locked_at = NULL, locked_until = NULL
WHERE event_id = $1 AND status = 3

-- name: replay
-- Makes dead events pending again, oldest first. An event that blocks a group keeps its place; others go to
-- the end of the order. Locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT seq, event_id, lane FROM {selected} AND status = 3 ORDER BY seq LIMIT $7 FOR UPDATE),
freed AS (DELETE FROM {group} g USING found WHERE g.event_id = found.event_id AND g.state = 'blocked' RETURNING g.event_id),
forgot AS (
    UPDATE {group} g SET event_id = NULL FROM found WHERE g.event_id = found.event_id AND g.state = 'paused'
    RETURNING found.event_id),
heads AS MATERIALIZED (SELECT event_id FROM freed UNION ALL SELECT event_id FROM forgot),
placed AS MATERIALIZED (
    SELECT seq, event_id, lane, event_id IN (SELECT event_id FROM heads) AS head FROM found ORDER BY seq),
numbered AS MATERIALIZED (
    SELECT event_id, CASE WHEN head THEN seq ELSE nextval({sequence_name}) END AS number,
        CASE WHEN head OR lane = -2 THEN lane END AS lane FROM placed),
revived AS (
    UPDATE {event} e
    SET seq = n.number, lane = n.lane, slot = coalesce(n.lane, (hashtext(coalesce({group_key}, e.event_id)) & 63)::smallint),
        status = 0, attempts = 0, available_at = t.now, done_at = NULL, last_error = NULL, processed_by = NULL, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM numbered n, t
    WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM found)) AND e.event_id = n.event_id AND e.status = 3
    RETURNING e.event_id, n.number),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'replay', event_id FROM revived, t ORDER BY number),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM heads)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM heads))
SELECT count(*) FROM revived

-- name: discard
-- Deletes dead events and frees the groups that they block. Locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT seq, event_id FROM {selected} AND status = 3 ORDER BY seq LIMIT $7 FOR UPDATE),
gone AS (
    DELETE FROM {event} e WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM found)) AND e.status = 3 RETURNING e.seq, e.event_id),
forgotten AS (DELETE FROM {attempt} a WHERE a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
freed AS (DELETE FROM {group} g USING gone WHERE g.event_id = gone.event_id AND g.state = 'blocked' RETURNING 1),
forgot AS (
    UPDATE {group} g SET event_id = NULL FROM gone WHERE g.event_id = gone.event_id AND g.state = 'paused' RETURNING 1),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'discard', event_id FROM gone, t ORDER BY seq),
behind AS (SELECT FROM freed UNION ALL SELECT FROM forgot),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM behind)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM behind))
SELECT count(*) FROM gone

-- name: cancel
-- Deletes pending events that are under no live claim, and writes audit entries. Locks the rows in the
-- caller's transaction, then the members and joins that lose a step.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
gone AS (
    DELETE FROM {event} e USING t
    WHERE e.event_id = ANY($1) AND e.status IN (0, 2) AND (e.locked_until IS NULL OR e.locked_until <= t.now)
    RETURNING e.event_id, e.joined),
forgotten AS (DELETE FROM {attempt} a WHERE a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $3, 'cancel', event_id FROM gone, t),
lost AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM gone WHERE joined) THEN
        {join_settle}(ARRAY[]::text[], ARRAY(SELECT event_id::text FROM gone WHERE joined), t.now) END AS fired FROM t)
SELECT gone.event_id, lost.fired FROM gone, lost

-- name: purge
-- Deletes rows of one status that ended before a time. With done rows it also deletes joins that ended before
-- it. Keeps the dead head of a blocked group and the steps of open joins.
-- Locks the rows and the joins, and skips those that others have locked. Checks the status again under the
-- lock, because a row may have been replayed. A row without an end time counts from its creation.
WITH before AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) - $4 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    (SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at < before.at
        AND ($1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    ORDER BY e.done_at LIMIT $2 FOR UPDATE OF e SKIP LOCKED)),
odd AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.status IN (1, 3) AND e.status = $1 AND e.done_at IS NULL AND e.created_at < before.at
        AND ($1 = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id))
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before
    WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM (SELECT ctid FROM old UNION ALL SELECT ctid FROM odd) c LIMIT $2))
        AND e.status = $1 AND coalesce(e.done_at, e.created_at) < before.at
    RETURNING e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
ended AS MATERIALIZED (
    SELECT j.join_id FROM {join} j, before WHERE $1 = 1 AND j.status <> 0 AND j.updated_at < before.at
    ORDER BY j.created_at, j.join_id LIMIT $2 FOR UPDATE OF j SKIP LOCKED),
cleared AS (
    DELETE FROM {join} j USING before
    WHERE j.join_id = ANY (ARRAY(SELECT join_id FROM ended)) AND j.status <> 0 AND j.updated_at < before.at
    RETURNING j.join_id),
left_over AS (DELETE FROM {join_member} m WHERE m.join_id = ANY (ARRAY(SELECT join_id FROM cleared)))
SELECT count(*) FROM gone

-- name: purge_any
-- Deletes rows that were written before a time, whatever their status. Keeps the dead head of a blocked group
-- and the steps of open joins. Locks the rows and skips rows that others have locked.
WITH before AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) - $3 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.created_at < before.at
        AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.event_id)
        AND (e.joined IS NULL OR NOT EXISTS (
            SELECT 1 FROM {join_member} m JOIN {join} j ON j.join_id = m.join_id WHERE m.event_id = e.event_id AND j.status = 0))
    LIMIT $1 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.created_at < before.at
    RETURNING e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT count(*) FROM gone

-- name: purge_turn
-- Takes the purge lock of this outbox until the transaction ends; false if another process holds it. The key is the
-- table's own: outboxes of the same name in other schemas of the database purge in their own turns.
SELECT pg_try_advisory_xact_lock(1886154855::bigint << 32 | {meta_name}::regclass::oid::bigint)

-- name: audit
-- Writes an audit entry.
INSERT INTO {audit} (at, actor, action, target) VALUES ($1, $2, $3, $4)

-- name: audits
-- The latest audit entries; no lock.
SELECT at, actor, action, target FROM {audit} ORDER BY id DESC LIMIT $1
