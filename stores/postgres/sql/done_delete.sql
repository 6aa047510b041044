-- Deletes pending rows that are done under the node's fence, keeps those with a message id; share lock on the node's row.
-- Said as a case, the message id tempts no plan to its index, which may be far longer than the batch. Ids are compared as in done.sql.
-- A deletion that a crash takes back is only a second delivery: no need to wait for the disk.
WITH me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE),
gone AS (
    DELETE FROM {event} e USING me
    WHERE e.seq = ANY($2) AND e.status IN (0, 2) AND e.message_id IS NULL
        AND ((e.seq, e.event_id) IN (SELECT o.seq, o.event_id FROM unnest($2::bigint[], $4::text[]) AS o (seq, event_id))) IS TRUE
    RETURNING e.seq, e.event_id),
kept AS (
    UPDATE {event} e
    SET status = 1, done_at = coalesce($3, clock_timestamp()), locked_by = NULL, locked_at = NULL, locked_until = NULL
    FROM me WHERE (SELECT count(*) FROM gone) < cardinality($2) AND e.seq = ANY($2) AND e.status IN (0, 2)
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
    set_config('synchronous_commit', 'off', true)
