-- The quarantine of a slot: how many of its holders were evicted since it was last trusted, and the highest
-- pending sequence number at the last eviction. Releases that know version 2 still work with these tables, so
-- the version stays 2.
ALTER TABLE {slot} ADD COLUMN IF NOT EXISTS evictions integer NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN IF NOT EXISTS quarantined_upto bigint NOT NULL DEFAULT 0;

INSERT INTO {meta} (name, value) VALUES ('schema_step', 4)
ON CONFLICT (name) DO UPDATE SET value = greatest({meta}.value, excluded.value);
