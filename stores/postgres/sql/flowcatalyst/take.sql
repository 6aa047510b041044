-- Takes the first items of group after group if the node leads; share locks on its row and on the slot of leadership, locks
-- on the rows. A row behind one that others have locked is left, without a group only where these keep their order. The
-- hops read one entry of the index each, in its order. Groups that are held are looked up one by one: a join would read all of
-- them, and might turn the order round.
-- Rows that do not fit into the bytes that may be loaded are left as they are; they are counted in the order in which they
-- were found. The rows are changed by their key: as a condition for an index the status would mislead.
-- A take that a crash takes back is only a second one: no need to wait for the disk.
WITH RECURSIVE t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now, $8::bigint AS row_most, $9::bigint AS total),
me AS MATERIALIZED (
    SELECT 1 FROM {node} n, {slot} s WHERE n.node_id = $2 AND s.slot = 0 AND s.holder = n.node_id
    FOR KEY SHARE OF n FOR SHARE OF s),
loose AS MATERIALIZED (
{if parallel}    SELECT id, {counted} AS bytes FROM {event} e, t
{if parallel}    WHERE $3::text IS NULL AND EXISTS (SELECT 1 FROM me) AND status = 'PENDING' AND message_group IS NULL
{if parallel}    ORDER BY created_at, id LIMIT least($5::bigint, $7::bigint) FOR UPDATE OF e SKIP LOCKED),
{if ordered}    SELECT head.id, head.bytes
{if ordered}    FROM (
{if ordered}        SELECT id, bytes, place, row_number() OVER (ORDER BY place) AS nth
{if ordered}        FROM (
{if ordered}            SELECT e.id, {counted} AS bytes, first.place
{if ordered}            FROM (
{if ordered}                SELECT id, row_number() OVER (ORDER BY created_at, id) AS place
{if ordered}                FROM (
{if ordered}                    SELECT id, created_at FROM {event}
{if ordered}                    WHERE $3::text IS NULL AND EXISTS (SELECT 1 FROM me) AND status = 'PENDING' AND message_group IS NULL
{if ordered}                    ORDER BY created_at, id LIMIT least($5::bigint, $7::bigint)) waiting) first
{if ordered}                JOIN {event} e ON e.id = first.id CROSS JOIN t
{if ordered}            WHERE e.status || '' = 'PENDING'
{if ordered}            FOR UPDATE OF e SKIP LOCKED) locked ORDER BY place) head
{if ordered}    WHERE head.nth = head.place),
hop (key) AS (
    (SELECT message_group FROM {event}
        WHERE $3 IS NULL AND EXISTS (SELECT 1 FROM me) AND status = 'PENDING' AND message_group IS NOT NULL
        ORDER BY message_group LIMIT 1)
    UNION ALL
    (SELECT message_group FROM {event}
        WHERE EXISTS (SELECT 1 FROM me) AND status = 'PENDING' AND message_group > $3
        ORDER BY message_group LIMIT 1)
    UNION ALL
    SELECT (SELECT e.message_group FROM {event} e
            WHERE e.status = 'PENDING' AND e.message_group > hop.key ORDER BY e.message_group LIMIT 1)
    FROM hop WHERE hop.key IS NOT NULL),
grouped AS MATERIALIZED (
    SELECT head.id, head.bytes
    FROM hop, LATERAL (
        SELECT id, bytes, place, row_number() OVER (ORDER BY place) AS nth
        FROM (
            SELECT e.id, {counted} AS bytes, first.place
            FROM (
                SELECT id, row_number() OVER (ORDER BY created_at, id) AS place
                FROM (
                    SELECT id, created_at FROM {event} WHERE status = 'PENDING' AND message_group = hop.key
                    ORDER BY created_at, id LIMIT $6) waiting) first
                JOIN {event} e ON e.id = first.id CROSS JOIN t
            WHERE e.status || '' = 'PENDING'
            FOR UPDATE OF e SKIP LOCKED) locked) head
    WHERE hop.key IS NOT NULL AND hop.key NOT IN (SELECT unnest($4::text[])) AND head.nth = head.place
        AND (SELECT 1 FROM {group} held WHERE held.group_key = hop.key COLLATE "C") IS NULL
    LIMIT $5 - (SELECT count(*) FROM loose)),
fitting AS (
    SELECT id FROM (
        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before
        FROM (SELECT id, bytes FROM loose UNION ALL SELECT id, bytes FROM grouped) found) f, t
    WHERE before < t.total),
taken AS (
    UPDATE {event} e SET status = 'PROCESSING', processed_at = greatest(t.now, e.processed_at + interval '1 microsecond')
    FROM t WHERE e.id = ANY (ARRAY(SELECT id FROM fitting)) AND e.status || '' = 'PENDING'
    RETURNING {taken_columns}, {bytes} AS bytes)
SELECT taken.*, EXISTS (SELECT 1 FROM me), set_config('synchronous_commit', 'off', true)
FROM (SELECT 1) one LEFT JOIN taken ON true
ORDER BY message_group NULLS FIRST, created_at, id
