-- The state of the schema: versions, migration lock, columns and privileges.

-- name: migrate_lock
-- Waits for the migration lock, which the session holds until it releases it.
SELECT get_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)), ?)

-- name: migrate_unlock
-- Releases the migration lock.
SELECT release_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)))

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
-- Adds the column for a node's published state; nodes of an earlier release leave it empty.
ALTER TABLE {node} ADD COLUMN state text

-- name: rights_user
-- The account whose privileges apply, and the database; no lock.
SELECT current_user(), database()

-- name: rights_select
-- Fails if the user may not read a table; reads nothing, no lock.
SELECT 1 FROM {table} LIMIT 0

-- name: rights_insert
-- Fails if the user may not insert rows; inserts nothing, no lock.
EXPLAIN INSERT INTO {table} () VALUES ()

-- name: rights_update
-- Fails if the user may not update rows; changes nothing, no lock.
EXPLAIN UPDATE {table} SET {column} = NULL LIMIT 0

-- name: rights_delete
-- Fails if the user may not delete rows; deletes nothing, no lock.
EXPLAIN DELETE FROM {table} LIMIT 0
