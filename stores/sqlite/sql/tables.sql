-- Whether there are tables of this outbox; no lock.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = {meta_name} COLLATE NOCASE)
