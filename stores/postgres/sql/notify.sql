-- Tells other processes that rows were written; never in a writer's transaction, and without waiting for the disk.
SELECT pg_notify($1, ''), set_config('synchronous_commit', 'off', true)
