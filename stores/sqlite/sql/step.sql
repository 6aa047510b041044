-- The last migration that was made, where older releases can work on after it; no lock.
SELECT value FROM {meta} WHERE name = 'schema_step'
