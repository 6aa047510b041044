-- A page of items by id, descending; no lock.
SELECT {columns} FROM {selected} AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?
