-- A page of items by id, descending, with or without their contents; no lock.
SELECT {listed_columns} FROM {selected} AND ($7::text IS NULL OR id < $7) ORDER BY id DESC LIMIT $8
