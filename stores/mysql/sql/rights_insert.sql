-- Fails where the user may not add rows; adds none, no lock.
EXPLAIN INSERT INTO {table} () VALUES ()
