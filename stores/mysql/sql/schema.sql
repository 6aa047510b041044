-- The state of the schema: its version, locks of migrations, columns and rights.

-- name: migrate_lock
-- Makes migrations wait for each other until the session lets go.
SELECT get_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)), ?)

-- name: migrate_unlock
-- Lets the next migration begin.
SELECT release_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)))

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
-- What a node tells of itself; nodes of an earlier release leave it empty.
ALTER TABLE {node} ADD COLUMN state text

-- name: rights_user
-- Whose rights are used, in which database; no lock.
SELECT current_user(), database()

-- name: rights_select
-- Fails where the user may not read a table; reads nothing, no lock.
SELECT 1 FROM {table} LIMIT 0

-- name: rights_insert
-- Fails where the user may not add rows; adds none, no lock.
EXPLAIN INSERT INTO {table} () VALUES ()

-- name: rights_update
-- Fails where the user may not change rows; changes none, no lock.
EXPLAIN UPDATE {table} SET {column} = NULL LIMIT 0

-- name: rights_delete
-- Fails where the user may not delete rows; deletes none, no lock.
EXPLAIN DELETE FROM {table} LIMIT 0
