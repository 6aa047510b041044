-- Fails where the user may not delete rows; deletes none, no lock.
EXPLAIN DELETE FROM {table} LIMIT 0
