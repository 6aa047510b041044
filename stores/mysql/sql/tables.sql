-- Whether there are tables of this outbox; no lock.
SELECT count(*) FROM information_schema.tables WHERE table_schema = database() AND table_name = {meta_name}
