-- Items by their ids, with contents up to what a row may have; no lock.
SELECT {light_columns}, utc_timestamp(), {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE id IN ({ids}) AND status = 'PENDING'
