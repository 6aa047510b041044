-- Whether no other process purges this outbox; nobody else does until the transaction ends.
SELECT pg_try_advisory_xact_lock(1886154855::bigint << 32 | hashtext({meta_name})::bigint & 4294967295)
