-- Fails where the user may not read a table; reads nothing, no lock.
SELECT 1 FROM {table} LIMIT 0
