-- Pending rows by their numbers, with contents up to what a row may have; no lock.
SELECT {light_columns}, {now}, {left_out} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs}) AND pending = 1
