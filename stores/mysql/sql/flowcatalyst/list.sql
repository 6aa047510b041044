-- A page of items by id, ascending; no lock.
SELECT {columns} FROM {selected} AND (? IS NULL OR id > ?) ORDER BY id LIMIT ?
