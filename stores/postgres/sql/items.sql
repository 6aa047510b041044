-- All statements on a table of the flowcatalyst layout, whose rows have no sequence numbers.

-- name: create_items
-- The table of items, as in the documentation of its own program.
CREATE TABLE IF NOT EXISTS {event} (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX IF NOT EXISTS {event_status}
    ON {event}(status, message_group, created_at);

-- name: create_beside
-- The tables beside a table of items: leadership, groups, audit entries.
CREATE TABLE IF NOT EXISTS {node} (
    node_id    varchar(64) COLLATE "C" NOT NULL PRIMARY KEY,
    label      text        NOT NULL,
    lane       smallint    NOT NULL,
    joined_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    state      text
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS {slot} (
    slot    smallint NOT NULL PRIMARY KEY,
    holder  varchar(64) COLLATE "C",
    suspect boolean  NOT NULL DEFAULT false
) WITH (fillfactor = 50);
INSERT INTO {slot} (slot) VALUES (0) ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS {group} (
    group_key text        COLLATE "C" NOT NULL PRIMARY KEY,
    state     text        NOT NULL CHECK (state IN ('blocked', 'paused')),
    event_id  varchar(255) COLLATE "C",
    reason    text,
    held_by   text        NOT NULL,
    since     timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS {audit} (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL,
    actor  text        NOT NULL,
    action text        NOT NULL,
    target text        NOT NULL
);

CREATE TABLE IF NOT EXISTS {meta} (
    name  text   COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {meta} (name, value) VALUES ('items_version', 1), ('groups_epoch', 0) ON CONFLICT DO NOTHING;

-- name: version
-- The version of the tables beside the items; no lock. Its name differs from that of the native tables, which
-- tells the layouts apart.
SELECT value FROM {meta} WHERE name = 'items_version'

-- name: lacking
-- The required columns that the table of items lacks; no lock.
SELECT c FROM unnest('{id,type,message_group,payload,status,retry_count,created_at,processed_at,error_message}'::text[]) c
WHERE c NOT IN (SELECT attname FROM pg_attribute WHERE attrelid = to_regclass({event_name}) AND attnum > 0 AND NOT attisdropped)

-- name: insert
-- Inserts one item; only row locks of the caller's transaction. Takes the parameters of the native statement.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT $5, $6, coalesce($9, $7 || '/' || $8), $10, 'PENDING', 0,
    coalesce($4::timestamptz, statement_timestamp()) AT TIME ZONE 'UTC'
{once}
RETURNING id::text, 0::bigint, NULL::smallint

-- name: insert_many
-- Inserts items; only row locks of the caller's transaction. Takes the parameters of the native statement.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT r.id, r.type, coalesce(r.message_group, r.aggregate_type || '/' || r.aggregate_id), r.payload, 'PENDING', 0,
    coalesce($8::timestamptz, statement_timestamp()) AT TIME ZONE 'UTC'
FROM unnest($9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[])
    AS r (id, type, aggregate_type, aggregate_id, message_group, payload)
{once}
RETURNING id::text, 0::bigint, NULL::smallint

-- name: insert_json
-- Inserts items from one parameter, a JSON array, for any driver; only row locks of the caller's transaction.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at)
SELECT r.event_id, r.event_type, coalesce(r.message_group, r.aggregate_type || '/' || r.aggregate_id), r.payload, 'PENDING', 0,
    statement_timestamp() AT TIME ZONE 'UTC'
FROM json_to_recordset($1::text::json)
    AS r (event_id text, event_type text, aggregate_type text, aggregate_id text, message_group text, payload text)
{once}

-- name: take
-- Takes the first items of each group in turn, if the node leads. Share locks on the node's row and on the
-- slot of leadership; locks the rows.
-- Leaves rows that come after a row locked by others in the same group. For items without a group, it does so
-- only if they keep their order.
-- Each hop reads one entry of the index, in its order. Held groups are looked up one by one: a join would
-- read all of them and might change the order.
-- Rows beyond the byte limit stay as they are; sizes are added up in the order in which the rows were found.
-- The update finds rows by key: with a condition on the status, the planner might choose the index on it.
-- Does not wait for the disk: if a crash loses a take, the items are only taken a second time.
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
SELECT taken.*, EXISTS (SELECT 1 FROM me) AS leads, set_config('synchronous_commit', 'off', true)
FROM (SELECT 1) one LEFT JOIN taken ON true
ORDER BY message_group NULLS FIRST, created_at, id

-- name: recover
-- Makes items pending again that were taken before a time, or all of them, except the listed ones that the
-- leader has in hand, if the node leads. Share locks on the node's row and on the slot of leadership. Locks
-- the rows and skips rows that others have locked.
WITH before AS MATERIALIZED (
    SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' - $3 * interval '1 microsecond' AS at),
me AS MATERIALIZED (
    SELECT 1 FROM {node} n, {slot} s WHERE n.node_id = $2 AND s.slot = 0 AND s.holder = n.node_id
    FOR KEY SHARE OF n FOR SHARE OF s),
old AS MATERIALIZED (
    SELECT id FROM {event} e, before
    WHERE EXISTS (SELECT 1 FROM me) AND e.status = 'PROCESSING'
        AND ($3::bigint = 0 OR coalesce(e.processed_at, e.created_at) < before.at)
        AND e.id NOT IN (SELECT unnest($4::text[]))
    LIMIT $5 FOR UPDATE OF e SKIP LOCKED),
back AS (
    UPDATE {event} e SET status = 'PENDING' FROM before
    WHERE e.id = ANY (ARRAY(SELECT id FROM old)) AND e.status = 'PROCESSING'
        AND ($3 = 0 OR coalesce(e.processed_at, e.created_at) < before.at)
    RETURNING 1)
SELECT count(*) FROM back

-- name: node_share
-- Whether a node is a member. The share lock on its row is the fence.
SELECT 1 FROM {node} WHERE node_id = $1 FOR KEY SHARE

-- name: items_settle
-- Applies outcomes of every kind to items that still have the time of the caller's claim. Locks the rows and
-- skips rows that others have locked. Under a node's fence it applies them only if the node is a member; the
-- share lock on the node's row is the fence.
-- Reports as busy every item that has that claim in this statement's snapshot but did not change: it was
-- locked, or changed before this statement reached it.
-- Finds and locks rows one by one by key, and changes them by ctid. The status is hidden from the planner:
-- with statistics from before the first take, it would read every PROCESSING item by
-- the index for each outcome.
-- Does not wait for the disk if all outcomes are done: if a crash loses the done marks, the events are only
-- delivered a second time.
-- Kinds: 0 done, 1 retry, 2 dead, 4 attempt, 5 release, 7 waits.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AT TIME ZONE 'UTC' AS now),
{me}o AS MATERIALIZED (
    SELECT r.id, r.kind, r.token AT TIME ZONE 'UTC' AS token, r.error, r.retries, r.place
    FROM unnest($2::text[], $3::smallint[], $4::timestamptz[], $5::text[], $6::integer[])
        WITH ORDINALITY AS r (id, kind, token, error, retries, place)),
found AS MATERIALIZED (
    SELECT o.id, o.kind, o.error, o.retries, o.place, held.at
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
        retry_count = coalesce(f.retries, e.retry_count)
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

-- name: group_block
-- Blocks groups behind their dead events and raises the epoch. A paused group stays paused and remembers the
-- event. Locks the groups and the epoch.
WITH blocked AS (
    INSERT INTO {group} AS g (group_key, state, event_id, reason, held_by, since)
    SELECT DISTINCT ON (r.blocks) r.blocks, 'blocked', r.id, r.error, 'engine', coalesce($1, clock_timestamp())
    FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS r (blocks, id, error, place) ORDER BY r.blocks, r.place
    ON CONFLICT (group_key) DO UPDATE SET event_id = excluded.event_id WHERE g.event_id IS NULL
    RETURNING 1)
UPDATE {meta} SET value = value + (SELECT count(*) FROM blocked)
WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM blocked)

-- name: node_evict
-- Removes expired nodes except the one that is renewing. Waits for their settles in flight.
-- Runs under the membership lock.
WITH evicted AS (DELETE FROM {node} WHERE expires_at <= $1 AND node_id <> $2 RETURNING node_id)
UPDATE {slot} s SET holder = NULL, suspect = true FROM evicted WHERE s.holder = evicted.node_id

-- name: waiting
-- Whether items are pending, and the creation time of the first one, if slot 0 is in the list; no lock.
SELECT first.at IS NOT NULL, first.at AT TIME ZONE 'UTC', NULL::timestamptz
FROM (SELECT coalesce(
        (SELECT created_at FROM {event} WHERE status = 'PENDING' AND message_group IS NULL ORDER BY created_at LIMIT 1),
        (SELECT created_at FROM {event} WHERE status = 'PENDING' AND message_group IS NOT NULL
            ORDER BY message_group, created_at LIMIT 1)) AS at
    WHERE 0 = ANY($4::smallint[])) held
    RIGHT JOIN (SELECT 1) one ON true, LATERAL (SELECT held.at) first

-- name: revive
-- Makes one failed item pending again; locks its row. Keeps its time, so that the next
-- claim gets a later one.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL
WHERE id = $1 AND status = 'FAILED' AND $2::timestamptz IS NOT NULL

-- name: replay
-- Makes failed items pending again, oldest first, and frees the groups that they block. Locks the rows, their
-- groups and the epoch.
-- Keeps their times, so that the next claim gets a later one.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT id, created_at FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT $7 FOR UPDATE),
freed AS (DELETE FROM {group} g USING found WHERE g.event_id = found.id AND g.state = 'blocked' RETURNING 1),
forgot AS (UPDATE {group} g SET event_id = NULL FROM found WHERE g.event_id = found.id AND g.state = 'paused' RETURNING 1),
heads AS MATERIALIZED (SELECT FROM freed UNION ALL SELECT FROM forgot),
revived AS (
    UPDATE {event} e SET status = 'PENDING', retry_count = 0, error_message = NULL
    WHERE e.id = ANY (ARRAY(SELECT id FROM found)) AND e.status = 'FAILED' RETURNING e.id, e.created_at),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'replay', id FROM revived, t ORDER BY created_at, id),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM heads)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM heads))
SELECT count(*) FROM revived

-- name: discard
-- Deletes failed items and frees the groups that they block. Locks the rows, their groups and the epoch.
WITH t AS MATERIALIZED (SELECT coalesce($8, clock_timestamp()) AS now),
found AS MATERIALIZED (SELECT id FROM {selected} AND status = 'FAILED' ORDER BY created_at, id LIMIT $7 FOR UPDATE),
gone AS (
    DELETE FROM {event} e WHERE e.id = ANY (ARRAY(SELECT id FROM found)) AND e.status = 'FAILED' RETURNING e.id, e.created_at),
freed AS (DELETE FROM {group} g USING gone WHERE g.event_id = gone.id AND g.state = 'blocked' RETURNING 1),
forgot AS (UPDATE {group} g SET event_id = NULL FROM gone WHERE g.event_id = gone.id AND g.state = 'paused' RETURNING 1),
recorded AS (
    INSERT INTO {audit} (at, actor, action, target)
    SELECT t.now, $9, 'discard', id FROM gone, t ORDER BY created_at, id),
behind AS (SELECT FROM freed UNION ALL SELECT FROM forgot),
grown AS (
    UPDATE {meta} SET value = value + (SELECT count(*) FROM behind)
    WHERE name = 'groups_epoch' AND EXISTS (SELECT 1 FROM behind))
SELECT count(*) FROM gone

-- name: cancel
-- Deletes items that no one has taken, and writes audit entries. Locks the rows in the caller's transaction.
-- Items have no joins.
WITH t AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AS now),
gone AS (DELETE FROM {event} e WHERE e.id = ANY($1) AND e.status = 'PENDING' RETURNING e.id::text),
recorded AS (INSERT INTO {audit} (at, actor, action, target) SELECT t.now, $3, 'cancel', id FROM gone, t)
SELECT id, NULL::integer FROM gone

-- name: purge
-- Deletes items of one status that ended before a time. Keeps the dead head of a blocked group. Locks the rows
-- and skips rows that others have locked. Checks the status again under the lock, because an item may have
-- been replayed.
WITH before AS MATERIALIZED (
    SELECT coalesce($3, clock_timestamp()) AT TIME ZONE 'UTC' - $4 * interval '1 microsecond' AS at,
        CASE $1::smallint WHEN 1 THEN 'COMPLETED' ELSE 'FAILED' END AS status),
old AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.status = before.status AND coalesce(e.processed_at, e.created_at) < before.at
{if held}        AND ($1::smallint = 1 OR NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.id::text COLLATE "C"))
    LIMIT $2 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before
    WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.status = before.status AND coalesce(e.processed_at, e.created_at) < before.at
    RETURNING 1)
SELECT count(*) FROM gone

-- name: purge_any
-- Deletes items that were written before a time, whatever their status. Keeps the dead head of a blocked group.
-- Locks the rows and skips rows that others have locked.
WITH before AS MATERIALIZED (SELECT coalesce($2, clock_timestamp()) AT TIME ZONE 'UTC' - $3 * interval '1 microsecond' AS at),
old AS MATERIALIZED (
    SELECT e.ctid FROM {event} e, before WHERE e.created_at < before.at
{if held}        AND NOT EXISTS (SELECT 1 FROM {group} g WHERE g.event_id = e.id::text COLLATE "C")
    LIMIT $1 FOR UPDATE OF e SKIP LOCKED),
gone AS (
    DELETE FROM {event} e USING before WHERE e.ctid = ANY (ARRAY(SELECT ctid FROM old)) AND e.created_at < before.at RETURNING 1)
SELECT count(*) FROM gone

-- name: list
-- A page of items by id, ascending, with or without their contents; no lock.
SELECT {listed_columns} FROM {selected} AND ($7::text IS NULL OR id > $7) ORDER BY id LIMIT $8

-- name: list_newest
-- A page of items by id, descending, with or without their contents; no lock.
SELECT {listed_columns} FROM {selected} AND ($7::text IS NULL OR id < $7) ORDER BY id DESC LIMIT $8

-- name: show
-- One item; no lock.
SELECT {columns} FROM {event} WHERE id = $1

-- name: stats_pending
-- Counts of items that have not ended, and the creation time of the oldest pending one; no lock.
SELECT count(*) FILTER (WHERE retry_count <= 0), count(*) FILTER (WHERE retry_count > 0), 0::bigint, 0::bigint, 0::bigint,
    min(created_at) FILTER (WHERE status = 'PENDING') AT TIME ZONE 'UTC', clock_timestamp()
FROM {event} WHERE status IN ('PENDING', 'PROCESSING')

-- name: stats_ended
-- Counts of completed and failed items, and of items completed and written in the last minute, in one pass; no lock.
SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'FAILED'), 0::bigint, 0::bigint,
    count(*) FILTER (WHERE status = 'COMPLETED' AND processed_at > statement_timestamp() AT TIME ZONE 'UTC' - interval '1 minute'),
    count(*) FILTER (WHERE created_at > statement_timestamp() AT TIME ZONE 'UTC' - interval '1 minute')
FROM {event}

-- name: stats_dead
-- Failed items by type, most first; no lock.
SELECT type, count(*) FROM {event} WHERE status = 'FAILED' GROUP BY type ORDER BY count(*) DESC, type
