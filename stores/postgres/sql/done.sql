-- Marks pending rows done under the node's fence; share lock on the node's row, locks on the rows.
-- A row is found by its number and changed only if the id beside that number is its own: servers give numbers again after a failover.
-- As a test of an answer, IN is looked up in a hash for each row found, and tempts no plan to a join or to the index of ids.
-- A done mark that a crash takes back is only a second delivery: no need to wait for the disk.
WITH me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
    RETURNING e.seq, e.event_id)
SELECT EXISTS (SELECT 1 FROM me),
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN ARRAY(SELECT seq || ' ' || event_id FROM changed) END,
    CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN EXISTS (
        SELECT 1 FROM {event} e WHERE e.seq = ANY($2) AND e.status IN (0, 2)
            AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS NOT TRUE) END,
    set_config('synchronous_commit', 'off', true)
