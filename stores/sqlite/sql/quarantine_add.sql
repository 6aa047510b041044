-- Adds what is quarantined of a slot to tables of versions 1 to 3; under the write lock.
ALTER TABLE {slot} ADD COLUMN evictions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN quarantined_upto INTEGER NOT NULL DEFAULT 0
