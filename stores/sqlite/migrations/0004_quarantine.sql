-- What is quarantined of a slot: how many of its holders were evicted since it was last trusted, and the highest pending number when
-- the last of them was. Releases that know version 2 work on, so that it stays version 2.
ALTER TABLE {slot} ADD COLUMN evictions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN quarantined_upto INTEGER NOT NULL DEFAULT 0;

UPDATE {meta} SET value = 4 WHERE name = 'schema_step';
