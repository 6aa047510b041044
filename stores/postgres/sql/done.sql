-- Marks pending rows done under the node's fence; share lock on the node's row, locks on the rows, which it waits for briefly, or
-- skips where others have them: those are told as busy, by what they were when it began.
-- A row is found by its number and changed only if the id beside that number is its own: servers give numbers again after a failover.
-- As a test of an answer, IN is looked up in a hash for each row found, and tempts no plan to a join or to the index of ids.
-- A done mark that a crash takes back is only a second delivery: no need to wait for the disk.
WITH me AS MATERIALIZED (
    SELECT 1 FROM {node} WHERE node_id = $1
{if brief}        AND set_config('lock_timeout', '{brief}', true) IS NOT NULL
    FOR KEY SHARE),
{if skipping}free AS MATERIALIZED (
{if skipping}    SELECT e.seq, e.event_id FROM {event} e, me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
{if skipping}    FOR NO KEY UPDATE OF e SKIP LOCKED),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
{if brief}    FROM me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
{if skipping}    FROM me WHERE e.seq = ANY(ARRAY(SELECT seq FROM free)) AND e.status IN (0, 2)
        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
    RETURNING e.seq, e.event_id)
SELECT EXISTS (SELECT 1 FROM me),
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN ARRAY(SELECT seq || ' ' || event_id FROM changed) END,
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2)
            AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS NOT TRUE) END,
{if brief}    NULL::text[],
{if skipping}    ARRAY(SELECT e.seq || ' ' || e.event_id FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2)
{if skipping}        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
{if skipping}        AND (e.seq, e.event_id) NOT IN (SELECT f.seq, f.event_id FROM free f)),
    set_config('synchronous_commit', 'off', true)
