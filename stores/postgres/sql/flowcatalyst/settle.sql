-- Applies outcomes of every kind to items that are still claimed at the time told; locks on the rows, skips those that others have
-- locked. By a node, only if it is a member, with a share lock on its row, which is the fence.
-- What is claimed so by what this sees and was not changed is busy: locked, or changed while this came to it.
-- The rows are found and locked one by one by their key and changed by their place. The status is no condition for an index:
-- by statistics from before the first take the planner would rather read every item that is PROCESSING, for each outcome.
-- A done mark that a crash takes back is only a second delivery: no need to wait for the disk then.
-- Kinds: 0 done, 1 retry, 2 dead, 4 attempt, 5 release, 7 waits. The claim began an attempt, which becomes a retry only here.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now),
{me}o AS MATERIALIZED (
    SELECT r.id, r.kind, r.token AT TIME ZONE 'UTC' AS token, r.error, r.counted, r.place
    FROM unnest($2::text[], $3::smallint[], $4::timestamptz[], $5::text[], $6::integer[])
        WITH ORDINALITY AS r (id, kind, token, error, counted, place)),
found AS MATERIALIZED (
    SELECT o.id, o.kind, o.error, o.counted, o.place, held.at
    FROM {by}o CROSS JOIN LATERAL (
        SELECT e.ctid AS at FROM {event} e WHERE e.id = o.id AND e.status || '' = 'PROCESSING' AND e.processed_at = o.token
        LIMIT 1 FOR UPDATE SKIP LOCKED) held),
done AS (
{if deleting}    DELETE FROM {event} e
{if keeping}    UPDATE {event} e SET status = 'COMPLETED', processed_at = greatest(t.now, e.processed_at), error_message = NULL FROM t
    WHERE e.ctid = ANY (ARRAY(SELECT at FROM found WHERE kind = 0))
    RETURNING e.id),
changed AS (
    UPDATE {event} e
    SET status = CASE f.kind WHEN 2 THEN 'FAILED' WHEN 4 THEN 'PROCESSING' WHEN 7 THEN 'PROCESSING' ELSE 'PENDING' END,
        processed_at = CASE f.kind WHEN 2 THEN greatest(t.now, e.processed_at) ELSE e.processed_at END,
        error_message = CASE WHEN f.kind IN (1, 2, 7) THEN f.error ELSE e.error_message END,
        retry_count = greatest(e.retry_count + f.counted, 0)
    FROM found f, t WHERE f.kind <> 0 AND e.ctid = ANY (ARRAY(SELECT at FROM found WHERE kind <> 0)) AND e.ctid = f.at
    RETURNING e.id),
ended AS MATERIALIZED (SELECT id FROM done UNION ALL SELECT id FROM changed)
SELECT CASE WHEN (SELECT count(*) FROM ended) < cardinality($2) THEN ARRAY(SELECT place FROM found WHERE id IN (SELECT id FROM ended)) END,
    {held},
    CASE WHEN (SELECT count(*) FROM ended) < cardinality($2) THEN ARRAY(
        SELECT o.place FROM o CROSS JOIN LATERAL (
            SELECT 1 FROM {event} e WHERE e.id = o.id AND e.status || '' = 'PROCESSING' AND e.processed_at = o.token LIMIT 1) claimed
        WHERE o.id NOT IN (SELECT id FROM ended))
    END,
    CASE WHEN 0 = ALL ($3) THEN set_config('synchronous_commit', 'off', true) END
