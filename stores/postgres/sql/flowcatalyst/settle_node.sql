-- Applies outcomes of every kind to items that are still claimed at the time told, if the node is a member; share lock on its
-- row, which is the fence, locks on the rows.
-- A done mark that a crash takes back is only a second delivery: no need to wait for the disk then.
-- Kinds: 0 done, 1 retry, 2 dead, 4 attempt, 5 release. The claim began an attempt, which becomes a retry only here.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now),
me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $8 FOR KEY SHARE),
o AS MATERIALIZED (
    SELECT r.id, r.kind, r.token AT TIME ZONE 'UTC' AS token, r.error, r.counted, r.place
    FROM unnest($2::text[], $3::smallint[], $4::timestamptz[], $5::text[], $6::integer[])
        WITH ORDINALITY AS r (id, kind, token, error, counted, place)),
gone AS (
    DELETE FROM {event} e USING o
    WHERE EXISTS (SELECT 1 FROM me) AND $7 AND o.kind = 0 AND e.id = ANY ($2) AND e.id = o.id AND e.status = 'PROCESSING' AND e.processed_at = o.token
    RETURNING o.place),
changed AS (
    UPDATE {event} e
    SET status = CASE o.kind WHEN 0 THEN 'COMPLETED' WHEN 2 THEN 'FAILED' WHEN 4 THEN 'PROCESSING' ELSE 'PENDING' END,
        processed_at = CASE WHEN o.kind IN (0, 2) THEN greatest(t.now, e.processed_at) ELSE e.processed_at END,
        error_message = CASE o.kind WHEN 0 THEN NULL WHEN 1 THEN o.error WHEN 2 THEN o.error ELSE e.error_message END,
        retry_count = e.retry_count + o.counted
    FROM o, t
    WHERE EXISTS (SELECT 1 FROM me) AND NOT ($7 AND o.kind = 0) AND e.id = ANY ($2) AND e.id = o.id AND e.status = 'PROCESSING' AND e.processed_at = o.token
    RETURNING o.place)
SELECT ARRAY(SELECT place FROM gone UNION ALL SELECT place FROM changed), EXISTS (SELECT 1 FROM me),
    CASE WHEN 0 = ALL ($3) THEN set_config('synchronous_commit', 'off', true) END
