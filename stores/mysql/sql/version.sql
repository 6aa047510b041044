-- The version of the tables; no lock.
SELECT value FROM {meta} WHERE name = 'schema_version'
