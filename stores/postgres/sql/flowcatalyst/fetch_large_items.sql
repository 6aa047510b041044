-- Items that wait, by their ids, with contents up to what a row may have; no lock.
SELECT {light_columns}, {left_out} FROM {event} WHERE id = ANY($2) AND status = 'PENDING'
