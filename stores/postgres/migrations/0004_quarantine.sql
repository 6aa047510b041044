-- What is quarantined of a slot: how many of its holders were evicted since it was last trusted, and the highest pending number when
-- the last of them was. Releases that know version 2 work on, so that it stays version 2.
ALTER TABLE {slot} ADD COLUMN IF NOT EXISTS evictions integer NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN IF NOT EXISTS quarantined_upto bigint NOT NULL DEFAULT 0;

INSERT INTO {meta} (name, value) VALUES ('schema_step', 4)
ON CONFLICT (name) DO UPDATE SET value = greatest({meta}.value, excluded.value);
