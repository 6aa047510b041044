-- Whether there are tables of this outbox; no lock.
SELECT to_regclass({meta_name}) IS NOT NULL
