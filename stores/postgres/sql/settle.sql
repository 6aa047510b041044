-- Records the outcomes of deliveries, under the fence of the node or of the claim.

-- name: done_whole
-- Marks pending rows done under the node's fence, if each number has one row with the expected id. Otherwise
-- it fails and changes nothing.
-- Share lock on the node's row. Locks the rows and waits briefly for those that others have locked.
-- Compares all ids as one text, in order of sequence number: testing each row takes several times as long. A
-- server may assign numbers again after a failover, so a number alone does not identify an event.
-- Does not wait for the disk: if a crash loses the done mark, the event is only delivered a second time.
WITH me AS MATERIALIZED (
    SELECT 1 FROM {node} WHERE node_id = $1 AND set_config('lock_timeout', '{brief}', true) IS NOT NULL
    FOR KEY SHARE),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
    RETURNING e.seq, e.event_id)
SELECT {as_expected}, set_config('synchronous_commit', 'off', true)
FROM (SELECT array_agg(s.seq) AS seqs, string_agg(s.event_id, E'\n') AS ids FROM (SELECT seq, event_id FROM changed ORDER BY seq) s) c

-- name: done
-- Marks pending rows done under the node's fence, each only if its id is the one that was given for it.
-- Share lock on the node's row, locks on the rows. Skips rows that others have locked and reports them as
-- busy, as of the snapshot of this statement.
-- Written as a test of its result, IN becomes a hash lookup for each row found. The planner can turn it
-- neither into a join nor into a scan of the index on ids.
-- Does not wait for the disk: if a crash loses the done mark, the event is only delivered a second time.
WITH me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE),
free AS MATERIALIZED (
    SELECT e.seq, e.event_id FROM {event} e, me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
    FOR NO KEY UPDATE OF e SKIP LOCKED),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2)
        AND {pair} IS TRUE
    RETURNING e.seq, e.event_id)
SELECT EXISTS (SELECT 1 FROM me),
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN ARRAY(SELECT seq || ' ' || event_id FROM changed) END,
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND {pair} IS NOT TRUE) END,
    ARRAY(SELECT e.seq || ' ' || e.event_id FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND {pair} IS TRUE
        AND (e.seq, e.event_id) NOT IN (SELECT f.seq, f.event_id FROM free f)),
    set_config('synchronous_commit', 'off', true)

-- name: done_delete_whole
-- Settles pending rows as done under the node's fence, if each number has one row with the expected id:
-- deletes them, but marks rows with a message id. Otherwise it fails and changes nothing.
-- Locks as in `done_whole`.
-- The test of the message id is a CASE, so that the planner cannot choose the index on message ids, which may
-- be far larger than the batch.
-- Does not wait for the disk: if a crash loses the deletion, the event is only delivered a second time.
WITH me AS MATERIALIZED (
    SELECT 1 FROM {node} WHERE node_id = $1 AND set_config('lock_timeout', '{brief}', true) IS NOT NULL
    FOR KEY SHARE),
gone AS (
    DELETE FROM {event} e USING me WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.message_id IS NULL
    RETURNING e.seq, e.event_id),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY($2) AND e.status IN (0, 2)
        AND CASE WHEN e.message_id IS NULL THEN false ELSE true END
    RETURNING e.seq, e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT {as_expected}, set_config('synchronous_commit', 'off', true)
FROM (SELECT array_agg(s.seq) AS seqs, string_agg(s.event_id, E'\n') AS ids
    FROM (SELECT seq, event_id FROM gone UNION ALL SELECT seq, event_id FROM kept ORDER BY seq) s) c

-- name: done_delete
-- Settles pending rows as done under the node's fence: deletes them, but marks rows with a message id.
-- Locks rows, skips locked ones and compares ids as in `done`; tests the
-- message id as in `done_delete_whole`.
-- Does not wait for the disk: if a crash loses the deletion, the event is only delivered a second time.
WITH me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE),
free AS MATERIALIZED (
    SELECT e.seq, e.event_id FROM {event} e, me WHERE e.seq = ANY($2) AND e.status IN (0, 2) FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING me
    WHERE e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2) AND e.message_id IS NULL AND {pair} IS TRUE
    RETURNING e.seq, e.event_id),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2)
        AND CASE WHEN e.message_id IS NULL THEN false ELSE true END AND {pair} IS TRUE
    RETURNING e.seq, e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT EXISTS (SELECT 1 FROM me),
    CASE WHEN (SELECT count(*) FROM gone) < cardinality($2)
        THEN ARRAY(SELECT seq || ' ' || event_id FROM gone UNION ALL SELECT seq || ' ' || event_id FROM kept) END,
    CASE WHEN (SELECT count(*) FROM gone) < cardinality($2) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND {pair} IS NOT TRUE) END,
    ARRAY(SELECT e.seq || ' ' || e.event_id FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND {pair} IS TRUE
        AND (e.seq, e.event_id) NOT IN (SELECT f.seq, f.event_id FROM free f)),
    set_config('synchronous_commit', 'off', true)

-- name: claimed_done_whole
-- Marks claimed rows done, if each number has one row with the id, the owner and the token that are given. Otherwise
-- it fails and changes nothing. Compares all ids as one text, as in `done_whole`. Counts the steps of joins, locks and
-- waits for the disk as `claimed_done`.
WITH t AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS now, set_config('lock_timeout', '{brief}', true)),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = t.now, processed_by = $1, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM t WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.locked_by = $1
    RETURNING e.seq, e.event_id, e.lock_token, e.joined)
SELECT {claims_as_expected},
    CASE WHEN c.joined THEN
        {join_settle}(ARRAY(SELECT event_id::text FROM changed WHERE joined), '{}'::text[], t.now)
    END,
    CASE WHEN $6 AND c.joined IS NOT TRUE THEN set_config('synchronous_commit', 'off', true) END
FROM t, (
    SELECT array_agg(s.seq) AS seqs, array_agg(s.lock_token) AS tokens, string_agg(s.event_id, E'\n') AS ids, bool_or(s.joined) AS joined
    FROM (SELECT seq, event_id, lock_token, joined FROM changed ORDER BY seq) s) c

-- name: claimed_done
-- Marks claimed rows done, each only if its id, its owner and its token are as given. Counts the steps of joins.
-- Locks the rows, waiting briefly for those that others have locked, then the members and joins of steps.
-- Tests each row by a hash lookup, as in `done`, so that the cost of a row does not grow with the batch.
-- Does not wait for the disk if the caller allows that and no step of a join ended: if a crash loses the done
-- mark, the message is only handled a second time.
WITH t AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS now, set_config('lock_timeout', '{brief}', true)),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = t.now, processed_by = $1, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM t WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.locked_by = $1 AND {claimed_pair} IS TRUE
    RETURNING e.seq, e.event_id, e.joined)
SELECT {claimed_unchanged},
    CASE WHEN EXISTS (SELECT 1 FROM changed WHERE joined) THEN
        {join_settle}(ARRAY(SELECT event_id::text FROM changed WHERE joined), '{}'::text[], t.now)
    END,
    CASE WHEN $6 AND NOT EXISTS (SELECT 1 FROM changed WHERE joined) THEN set_config('synchronous_commit', 'off', true) END
FROM t

-- name: claimed_done_delete_whole
-- Settles claimed rows as done: deletes them, but marks rows with a message id and steps of joins. Compares rows as
-- `claimed_done_whole`; for the rest see `claimed_done_delete`.
WITH t AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS now, set_config('lock_timeout', '{brief}', true)),
gone AS (
    DELETE FROM {event} e USING t
    WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.message_id IS NULL AND e.joined IS NULL AND e.locked_by = $1
    RETURNING e.seq, e.event_id, e.lock_token),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = t.now, processed_by = $1, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM t WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY($2) AND e.status IN (0, 2) AND e.locked_by = $1
    RETURNING e.seq, e.event_id, e.lock_token, e.joined),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT {claims_as_expected},
    CASE WHEN c.joined THEN
        {join_settle}(ARRAY(SELECT event_id::text FROM kept WHERE joined), '{}'::text[], t.now)
    END,
    CASE WHEN $6 AND c.joined IS NOT TRUE THEN set_config('synchronous_commit', 'off', true) END
FROM t, (
    SELECT array_agg(s.seq) AS seqs, array_agg(s.lock_token) AS tokens, string_agg(s.event_id, E'\n') AS ids, bool_or(s.joined) AS joined
    FROM (
        SELECT seq, event_id, lock_token, NULL::boolean AS joined FROM gone UNION ALL SELECT seq, event_id, lock_token, joined FROM kept
        ORDER BY seq) s) c

-- name: claimed_done_delete
-- Settles claimed rows as done: deletes them, but marks rows with a message id and steps of joins. Compares rows,
-- locks them and counts steps as in `claimed_done`.
-- While the DELETE waits for a row, another transaction may attach it to a join. The DELETE then leaves the
-- row. The UPDATE therefore runs after the DELETE and covers all rows if any is left; rows that the DELETE
-- removed are not there for it to find.
WITH t AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS now, set_config('lock_timeout', '{brief}', true)),
gone AS (
    DELETE FROM {event} e USING t
    WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.message_id IS NULL AND e.joined IS NULL
        AND e.locked_by = $1 AND {claimed_pair} IS TRUE
    RETURNING e.seq, e.event_id),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = t.now, processed_by = $1, locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM t WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY($2) AND e.status IN (0, 2)
        AND e.locked_by = $1 AND {claimed_pair} IS TRUE
    RETURNING e.seq, e.event_id, e.joined),
changed AS (SELECT seq, event_id, NULL::boolean AS joined FROM gone UNION ALL SELECT seq, event_id, joined FROM kept),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT {claimed_unchanged},
    CASE WHEN EXISTS (SELECT 1 FROM kept WHERE joined) THEN
        {join_settle}(ARRAY(SELECT event_id::text FROM kept WHERE joined), '{}'::text[], t.now)
    END,
    CASE WHEN $6 AND NOT EXISTS (SELECT 1 FROM kept WHERE joined) THEN set_config('synchronous_commit', 'off', true) END
FROM t

-- name: claimed_renew
-- Renews the leases of claimed rows. Compares rows and locks them as in `claimed_done`.
WITH t AS MATERIALIZED (SELECT coalesce($3, clock_timestamp()) AS now, set_config('lock_timeout', '{brief}', true)),
changed AS (
    UPDATE {event} e SET locked_until = t.now + $6 * interval '1 microsecond'
    FROM t WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.locked_until IS NOT NULL AND e.locked_by = $1 AND {claimed_pair} IS TRUE
    RETURNING e.seq, e.event_id)
SELECT {claimed_unchanged}

-- name: settle
-- Applies outcomes of every kind under a fence. The reason of a blocked group is the first line of the error.
-- Share lock on the node's row; then locks the rows, the groups that become blocked, and the members and
-- joins of messages that ended. It waits for rows that others have locked, briefly or not, or
-- skips them as in `done`.
-- Kinds: 0 done, 1 retry, 2 dead, 3 delay, 4 attempt, 5 release, 6 extend, 7 waits.
-- If the answer to an earlier call was lost, a failure changes no row that became available since: that call or a
-- replay made it so.
-- Rows are found by sequence number. The comparison of ids is a CASE, so that the planner cannot choose the
-- index on ids. In a database without an encoding (SQL_ASCII) an id may be unreadable; its outcome then has
-- an empty id, and the row can go dead by its number alone, but never done or to a retry.
-- While the DELETE waits for a row, another transaction may attach it to a join. The DELETE then leaves the
-- row. The UPDATE therefore runs after the DELETE and covers all done rows if any is left; rows that the
-- DELETE removed are not there for it to find.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $2 FOR KEY SHARE),
held AS MATERIALIZED (
    SELECT $2::text IS NULL OR EXISTS (SELECT 1 FROM me) AS held
{if brief}        , set_config('lock_timeout', '{brief}', true)
    ),
{if skipping}free AS MATERIALIZED (
{if skipping}    SELECT e.seq, e.event_id FROM {event} e, held WHERE held.held AND e.seq = ANY ($5) AND e.status IN (0, 2)
{if skipping}    FOR UPDATE OF e SKIP LOCKED),
o AS MATERIALIZED (
    SELECT r.* FROM held, unnest($5::bigint[], $6::smallint[], $7::bigint[], $8::bigint[], $9::text[], $10::integer[], $11::boolean[], $12::text[],
            $13::text[], $14::boolean[])
        WITH ORDINALITY AS r (seq, kind, token, delay_us, error, attempts, delayed, blocks, event_id, recorded, place)
    WHERE held.held
{if skipping}        AND r.seq IN (SELECT seq FROM free)
    ),
{if deleting}gone AS (
{if deleting}    DELETE FROM {event} e USING o
{if deleting}    WHERE o.kind = 0 AND e.seq = ANY ($5) AND e.seq = o.seq AND e.status IN (0, 2) AND e.message_id IS NULL AND e.joined IS NULL
{if deleting}        AND CASE WHEN e.event_id = o.event_id THEN true ELSE false END
{if deleting}        AND ($3::text IS NULL OR (e.locked_by = $3 AND e.lock_token = o.token))
{if deleting}    RETURNING e.seq, e.event_id, o.place),
{if deleting}forgotten AS (DELETE FROM {attempt} a WHERE a.event_id = ANY (ARRAY(SELECT event_id FROM gone))),
{if keeping}gone (place) AS (SELECT 0::bigint WHERE false),
changed AS (
    UPDATE {event} e
    SET status = CASE o.kind WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE e.status END,
        done_at = CASE WHEN o.kind IN (0, 2) THEN t.now ELSE e.done_at END,
        processed_by = CASE WHEN o.kind IN (0, 2) THEN coalesce($3, e.processed_by) ELSE e.processed_by END,
        available_at = CASE o.kind WHEN 1 THEN t.now + o.delay_us * interval '1 microsecond' ELSE e.available_at END,
        last_error = CASE WHEN o.kind IN (1, 2, 7) THEN o.error ELSE e.last_error END,
        attempts = coalesce(o.attempts, e.attempts),
        lane = CASE WHEN (o.kind = 3 OR o.delayed) AND e.lane IS DISTINCT FROM -2 THEN -1 ELSE e.lane END,
        slot = CASE WHEN (o.kind = 3 OR o.delayed) AND e.lane IS DISTINCT FROM -2 THEN -1 ELSE e.slot END,
        locked_by = CASE WHEN o.kind IN (4, 6, 7) THEN e.locked_by END,
        locked_at = CASE WHEN o.kind IN (4, 6, 7) THEN e.locked_at END,
        locked_until = CASE o.kind WHEN 4 THEN e.locked_until WHEN 7 THEN e.locked_until WHEN 6 THEN t.now + o.delay_us * interval '1 microsecond' END
    FROM o, t
    WHERE e.seq = ANY ($5) AND e.seq = o.seq AND e.status IN (0, 2)
        AND CASE WHEN e.event_id = o.event_id THEN true ELSE o.event_id = '' AND o.kind NOT IN (0, 1) END
{if deleting}        AND (o.kind <> 0 OR (SELECT count(*) FROM gone) < (SELECT count(*) FROM o WHERE kind = 0))
        AND (o.kind <> 6 OR e.locked_until IS NOT NULL)
        AND ($15::timestamptz IS NULL OR o.kind NOT IN (1, 2) OR e.available_at < $15)
        AND ($3::text IS NULL OR (e.locked_by = $3 AND e.lock_token = o.token))
    RETURNING e.seq, e.event_id, e.attempts, e.joined, o.kind, o.error, o.recorded, o.blocks, o.place),
remembered AS (
    INSERT INTO {attempt} (event_id, number, failed_at, failed_by, error)
    SELECT event_id, attempts, t.now, $4::text, error FROM changed, t
    WHERE recorded ORDER BY place),
blocked AS (
    INSERT INTO {group} AS g (group_key, state, event_id, reason, held_by, since)
    SELECT DISTINCT ON (blocks) blocks, 'blocked', event_id, split_part(error, E'\n', 1), 'engine', t.now FROM changed, t
    WHERE blocks IS NOT NULL ORDER BY blocks, place
    ON CONFLICT (group_key) DO UPDATE SET event_id = excluded.event_id WHERE g.event_id IS NULL
    RETURNING 1),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM blocked)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM blocked))
SELECT held.held, ARRAY(SELECT place FROM gone UNION ALL SELECT place FROM changed),
    CASE WHEN EXISTS (SELECT 1 FROM changed WHERE joined AND kind IN (0, 2)) THEN
        {join_settle}(ARRAY(SELECT event_id::text FROM changed WHERE joined AND kind = 0),
            ARRAY(SELECT event_id::text FROM changed WHERE joined AND kind = 2), t.now)
    END,
    CASE WHEN (SELECT count(*) FROM gone) + (SELECT count(*) FROM changed) < cardinality($5) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY ($5) AND e.status IN (0, 2)
            AND ((e.seq, e.event_id) IN (SELECT r.seq, r.event_id FROM unnest($5, $13) AS r (seq, event_id))) IS NOT TRUE)
    END,
{if skipping}    ARRAY(SELECT e.seq || ' ' || e.event_id FROM {event} e WHERE e.seq = ANY ($5) AND e.status IN (0, 2)
{if skipping}        AND ((e.seq, e.event_id) IN (SELECT r.seq, r.event_id FROM unnest($5, $13) AS r (seq, event_id))) IS TRUE
{if skipping}        AND (e.seq, e.event_id) NOT IN (SELECT f.seq, f.event_id FROM free f))
{if waiting}    NULL::text[]
{if brief}    NULL::text[]
FROM held, t
