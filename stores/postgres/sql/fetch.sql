-- Reading pending rows in order, the horizon of a read, and promoting rows that have become due.

-- name: fetch_slots
-- Pending rows of one range of slots above a number, without contents that are too large to be loaded at once; no lock.
SELECT {light_columns}, clock_timestamp() AS now, {left_out} FROM {event}
WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4
ORDER BY seq LIMIT $5

-- name: fetch_ranges
-- Pending rows of the slots in a list above a number, by a range of groups' slots and one of lanes, without contents that are
-- too large to be loaded at once; no lock.
SELECT * FROM (
    (SELECT {light_columns}, clock_timestamp() AS now, {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $3 AND $4 AND slot = ANY($7) ORDER BY seq LIMIT $8)
    UNION ALL
    (SELECT {light_columns}, clock_timestamp() AS now, {left_out} FROM {event}
    WHERE status IN (0, 2) AND seq > $2 AND slot BETWEEN $5 AND $6 AND slot = ANY($7) ORDER BY seq LIMIT $8)) r
ORDER BY seq LIMIT $8

-- name: fetch_group
-- Pending rows of one group from a number on, without contents that are too large to be loaded at once; no lock.
SELECT {light_columns}, clock_timestamp() AS now, {left_out} FROM {event}
WHERE status IN (0, 2) AND seq >= $2 AND slot = $3 AND {group_key} = $4
ORDER BY seq LIMIT $5

-- name: fetch_due
-- Pending rows that are due and under no live claim, but those of the queue, without contents that are too large to be loaded
-- at once; no lock.
SELECT {light_columns}, t.now, {left_out} FROM {event}, (SELECT coalesce($2, clock_timestamp()) AS now OFFSET 0) t
WHERE status IN (0, 2) AND slot <> -2 AND available_at <= t.now AND (locked_until IS NULL OR locked_until <= t.now)
    AND ($3::bigint IS NULL OR created_at <= t.now - $3 * interval '1 microsecond')
ORDER BY seq LIMIT $4

-- name: fetch_large
-- Pending rows by their numbers, with contents up to what a row may have; no lock.
SELECT {light_columns}, clock_timestamp() AS now, {left_out} FROM {event}
WHERE status IN (0, 2) AND seq = ANY($2)
ORDER BY seq

-- name: horizon
-- The last number drawn, and after that the transactions that may still commit a number up to it; no lock.
-- A server that recovers from a crash keeps its start time, but starts its statistics anew; before 15 these are in a slow file.
-- A sequence that is restarted (TRUNCATE … RESTART IDENTITY, ALTER SEQUENCE … RESTART) gets a new file, also where it has passed the
-- last number again by now; `setval` changes it in place.
SELECT s.number, w.open, greatest(pg_postmaster_start_time(), CASE WHEN current_setting('server_version_num')::int >= 150000
    THEN pg_stat_get_bgwriter_stat_reset_time() END), clock_timestamp(), pg_relation_filenode({sequence_name}::regclass)::bigint
FROM (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS number FROM {sequence}) s,
    LATERAL (SELECT coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS open FROM pg_locks
        WHERE locktype = 'relation' AND relation = {event_name}::regclass AND granted AND pid IS DISTINCT FROM pg_backend_pid()
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') AND s.number >= 0) w

-- name: clock
-- The database's now; no lock.
SELECT clock_timestamp()

-- name: next_due
-- When the next delayed row is due; no lock.
SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 ORDER BY available_at, seq LIMIT 1

-- name: later_due
-- When the next delayed row after a time is due; no lock.
SELECT available_at FROM {event} WHERE status IN (0, 2) AND lane = -1 AND available_at > $1 ORDER BY available_at, seq LIMIT 1

-- name: promote
-- Moves delayed rows that are due to the end of the order, if the node is a member; share lock on its row, locks on the rows.
WITH t AS MATERIALIZED (SELECT coalesce($1, clock_timestamp()) AS now),
me AS MATERIALIZED (SELECT 1 FROM {node} WHERE node_id = $2 FOR KEY SHARE),
due AS MATERIALIZED (
    SELECT event_id, {group_key} IS NOT NULL AS grouped FROM {event} e, t
    WHERE status IN (0, 2) AND lane = -1 AND available_at <= t.now AND EXISTS (SELECT 1 FROM me)
    ORDER BY available_at, seq LIMIT $3 FOR UPDATE OF e SKIP LOCKED),
numbered AS MATERIALIZED (SELECT event_id, grouped, nextval({sequence_name}) AS number FROM due),
moved AS (
    UPDATE {event} e SET seq = n.number, lane = CASE WHEN $4 AND n.grouped THEN NULL ELSE $5::smallint END
    FROM numbered n WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM due)) AND e.event_id = n.event_id
    RETURNING 1)
SELECT EXISTS (SELECT 1 FROM me), (SELECT count(*) FROM moved), t.now FROM t
