-- Marks pending rows done under the node's fence; share lock on the node's row, locks on the rows.
-- A done mark that a crash takes back is only a second delivery: no need to wait for the disk.
WITH me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE),
changed AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE e.seq = ANY($2) AND e.status IN (0, 2)
    RETURNING e.seq)
SELECT EXISTS (SELECT 1 FROM me), CASE WHEN (SELECT count(*) FROM changed) < cardinality($2) THEN ARRAY(SELECT seq FROM changed) END,
    set_config('synchronous_commit', 'off', true)
