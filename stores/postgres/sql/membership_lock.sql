-- Makes joining, beating and leaving exclusive against each other until the transaction ends.
SELECT pg_advisory_xact_lock(1886153839::bigint << 32 | {node_name}::regclass::oid::bigint)
