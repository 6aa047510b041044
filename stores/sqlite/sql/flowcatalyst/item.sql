-- The item at a place, without contents that are larger than a row may be; no lock.
SELECT {light_columns}, {left_out} FROM {event} WHERE rowid = ?2
