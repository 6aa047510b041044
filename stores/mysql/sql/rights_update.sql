-- Fails where the user may not change rows; changes none, no lock.
EXPLAIN UPDATE {table} SET {column} = NULL LIMIT 0
