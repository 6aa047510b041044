-- The state of the schema: its version, locks of migrations, columns and rights.

-- name: write_lock
-- Takes the write lock and changes nothing, so that what is read next is the last that was committed.
UPDATE {event} SET status = status WHERE 0

-- name: tables
-- Whether there are tables of this outbox; no lock.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = {meta_name} COLLATE NOCASE)

-- name: version
-- The version of the tables; no lock.
SELECT value FROM {meta} WHERE name = 'schema_version'

-- name: step
-- The last migration that was made, where older releases can work on after it; no lock.
SELECT value FROM {meta} WHERE name = 'schema_step'

-- name: node_state_there
-- Fails where the table of nodes lacks the column that an earlier release did not make; no lock.
SELECT state FROM {node} LIMIT 0

-- name: node_state
-- What a node tells of itself; nodes of an earlier release leave it empty; takes the write lock.
ALTER TABLE {node} ADD COLUMN state text

-- name: joined_there
-- Whether messages can bear the mark of joins; no lock.
SELECT joined FROM {event} LIMIT 0

-- name: joined_add
-- Adds the mark of joins to tables of version 1; under the write lock.
ALTER TABLE {event} ADD COLUMN joined INTEGER

-- name: quarantine_there
-- Whether slots tell what is quarantined of them; no lock.
SELECT quarantined_upto FROM {slot} LIMIT 0

-- name: quarantine_add
-- Adds what is quarantined of a slot to tables of versions 1 to 3; under the write lock.
ALTER TABLE {slot} ADD COLUMN evictions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE {slot} ADD COLUMN quarantined_upto INTEGER NOT NULL DEFAULT 0
