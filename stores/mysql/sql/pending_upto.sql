-- The highest number of a row, pending or not, or zero: no pending row has a higher one; no lock.
SELECT coalesce(max(seq), 0) FROM {event}
