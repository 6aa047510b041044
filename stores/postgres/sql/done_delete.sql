-- Deletes pending rows that are done under the node's fence, keeps those with a message id; share lock on the node's row, locks on
-- the rows, as in done.sql.
-- Said as a case, the message id tempts no plan to its index, which may be far longer than the batch. Ids are compared as in done.sql.
-- A deletion that a crash takes back is only a second delivery: no need to wait for the disk.
WITH me AS MATERIALIZED (
    SELECT 1 FROM {node} WHERE node_id = $1
{if brief}        AND set_config('lock_timeout', '{brief}', true) IS NOT NULL
    FOR KEY SHARE),
{if skipping}free AS MATERIALIZED (
{if skipping}    SELECT e.seq, e.event_id FROM {event} e, me WHERE e.seq = ANY($2) AND e.status IN (0, 2) FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING me
{if brief}    WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.message_id IS NULL
{if skipping}    WHERE e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2) AND e.message_id IS NULL
        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
    RETURNING e.seq, e.event_id),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
{if brief}    FROM me WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY($2) AND e.status IN (0, 2)
{if skipping}    FROM me WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2)
        AND CASE WHEN e.message_id IS NULL THEN false ELSE true END
        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
    RETURNING e.seq, e.event_id),
forgotten AS (
    DELETE FROM {attempt} a WHERE EXISTS (SELECT 1 FROM {attempt}) AND a.event_id = ANY (ARRAY(SELECT event_id FROM gone)))
SELECT EXISTS (SELECT 1 FROM me),
    CASE WHEN (SELECT count(*) FROM gone) < cardinality($2)
        THEN ARRAY(SELECT seq || ' ' || event_id FROM gone UNION ALL SELECT seq || ' ' || event_id FROM kept) END,
    CASE WHEN (SELECT count(*) FROM gone) < cardinality($2) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2)
            AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS NOT TRUE) END,
{if brief}    NULL::text[],
{if skipping}    ARRAY(SELECT e.seq || ' ' || e.event_id FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2)
{if skipping}        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
{if skipping}        AND (e.seq, e.event_id) NOT IN (SELECT f.seq, f.event_id FROM free f)),
    set_config('synchronous_commit', 'off', true)
