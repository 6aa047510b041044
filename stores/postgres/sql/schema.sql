-- The schema: its version, the migration lock, columns and privileges.

-- name: schema
-- Creates the schema of the tables, unless it exists.
DO $$ BEGIN IF to_regnamespace({schema_name}) IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$;

-- name: migrate_lock
-- Makes migrations wait for each other until the transaction ends.
SELECT pg_advisory_xact_lock(1886153838::bigint << 32 | hashtext({meta_name})::bigint & 4294967295)

-- name: tables
-- Whether the tables of this outbox exist; no lock.
SELECT to_regclass({meta_name}) IS NOT NULL

-- name: searched_schema
-- The schema in which this outbox looks for its tables; no lock.
SELECT {searched_schema}

-- name: version
-- The version of the tables; no lock.
SELECT value FROM {meta} WHERE name = 'schema_version'

-- name: step
-- The last migration applied, as recorded by migrations that older releases can work with; no lock.
SELECT value FROM {meta} WHERE name = 'schema_step'

-- name: node_state_there
-- Whether the table of nodes has the column `state`, which an earlier release did not create; no lock.
SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({node_name}) AND attname = 'state' AND NOT attisdropped)

-- name: node_state
-- The published state of a node. Nodes of an earlier release leave it empty.
ALTER TABLE {node} ADD COLUMN IF NOT EXISTS state text;

-- name: page_room_there
-- Whether the table of events says how full its pages are to be, which an earlier release left open; no lock.
SELECT EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass({event_name}) AND reloptions::text LIKE '%fillfactor=%')

-- name: page_room
-- Leaves room in new pages for the versions of messages that claims write. Does not rewrite the table, and
-- waits for no reader or writer.
ALTER TABLE {event} SET (fillfactor = 45);

-- name: rights
-- Which of these privileges on existing tables, columns and sequences this user lacks, and the name of the
-- user; no lock. UPDATE on a sequence includes what USAGE allows.
SELECT w.place, current_user::text
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS w (name, wanted, columns, place)
    JOIN pg_class c ON c.oid = to_regclass(w.name)
WHERE NOT CASE
    WHEN c.relkind = 'S' THEN has_sequence_privilege(c.oid, CASE w.wanted WHEN 'USAGE' THEN 'USAGE, UPDATE' ELSE w.wanted END)
    WHEN w.columns = '' THEN has_table_privilege(c.oid, w.wanted)
    ELSE (SELECT bool_and(has_column_privilege(c.oid, a.attnum, w.wanted)) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attname = ANY (string_to_array(w.columns, ', '))) END
ORDER BY w.place
