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
