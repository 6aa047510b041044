-- Pending rows by their numbers, with contents up to what a row may have; no lock.
SELECT {light_columns}, clock_timestamp(), {left_out} FROM {event}
WHERE status IN (0, 2) AND seq = ANY($2)
ORDER BY seq
