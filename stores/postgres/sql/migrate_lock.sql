-- Makes migrations wait for each other until the transaction ends.
SELECT pg_advisory_xact_lock(1886153838::bigint << 32 | hashtext({meta_name})::bigint & 4294967295)
