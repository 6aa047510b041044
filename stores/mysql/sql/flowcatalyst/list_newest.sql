-- A page of items by id, descending, with or without their contents; no lock.
SELECT {listed_columns} FROM {selected} AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?
