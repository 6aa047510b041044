-- A page of items by id, descending; no lock.
SELECT {columns} FROM {selected} AND ($7::text IS NULL OR id < $7) ORDER BY id DESC LIMIT $8
