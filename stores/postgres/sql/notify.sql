-- Tells other processes that rows were written; never in a writer's transaction.
SELECT pg_notify($1, '')
