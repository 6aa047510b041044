-- A page of items by id, ascending; no lock.
SELECT {columns} FROM {selected} AND ($7::text IS NULL OR id > $7) ORDER BY id LIMIT $8
