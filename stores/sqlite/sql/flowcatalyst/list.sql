-- A page of items by id, ascending, with or without their contents; no lock.
SELECT {listed_columns} FROM {selected} AND (?7 IS NULL OR id > ?7) ORDER BY id LIMIT ?8
