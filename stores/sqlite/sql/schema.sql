-- The state of the schema: versions, columns, and the write lock.

-- name: write_lock
-- Takes the write lock and changes nothing, so that the next read sees the latest commit.
UPDATE {event} SET status = status WHERE 0

-- name: tables
-- Whether the tables of this outbox exist; no lock.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = {meta_name} COLLATE NOCASE)

-- name: version
-- The version of the tables; no lock.
SELECT value FROM {meta} WHERE name = 'schema_version'

-- name: step
-- The last migration that ran, where older releases can still use the tables after it; no lock.
SELECT value FROM {meta} WHERE name = 'schema_step'

-- name: node_state_there
-- Fails if the node table lacks the state column, which an earlier release did not create; no lock.
SELECT state FROM {node} LIMIT 0

-- name: node_state
-- Adds the column for a node's published state; nodes of an earlier release leave it
-- empty; under the write lock.
ALTER TABLE {node} ADD COLUMN state text

-- name: oversized_there
-- Fails if the table of what was set aside does not exist; no lock.
SELECT 1 FROM {oversized} LIMIT 0

-- name: joined_there
-- Fails if the event table lacks the column that marks steps of joins; no lock.
SELECT joined FROM {event} LIMIT 0

-- name: joined_add
-- Adds the column that marks steps of joins to tables of version 1; under the write lock.
ALTER TABLE {event} ADD COLUMN joined INTEGER

-- name: quarantine_there
-- Fails if the slot table lacks the quarantine columns; no lock.
SELECT quarantined_upto FROM {slot} LIMIT 0

-- name: quarantine_add
-- Adds the quarantine columns to tables of versions 1 to 3; under the write lock.
ALTER TABLE {slot} ADD COLUMN evictions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN quarantined_upto INTEGER NOT NULL DEFAULT 0
