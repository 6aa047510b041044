-- The state of the schema: its version, locks of migrations, columns and rights.

-- name: schema
-- Makes the schema of the tables, unless it is there.
DO $$ BEGIN IF to_regnamespace({schema_name}) IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$;

-- name: migrate_lock
-- Makes migrations wait for each other until the transaction ends.
SELECT pg_advisory_xact_lock(1886153838::bigint << 32 | hashtext({meta_name})::bigint & 4294967295)

-- name: tables
-- Whether there are tables of this outbox; no lock.
SELECT to_regclass({meta_name}) IS NOT NULL

-- name: version
-- The version of the tables; no lock.
SELECT value FROM {meta} WHERE name = 'schema_version'

-- name: step
-- The last migration that was made, where older releases can work on after it; no lock.
SELECT value FROM {meta} WHERE name = 'schema_step'

-- name: node_state_there
-- Whether the table of nodes has the column that an earlier release did not make; no lock.
SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({node_name}) AND attname = 'state' AND NOT attisdropped)

-- name: node_state
-- What a node tells of itself; nodes of an earlier release leave it empty.
ALTER TABLE {node} ADD COLUMN IF NOT EXISTS state text;

-- name: rights
-- Which of these rights on tables that are there this user lacks, and who it is; no lock.
SELECT w.place, current_user::text
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (name, wanted, place)
WHERE to_regclass(w.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(w.name), w.wanted)
ORDER BY w.place
