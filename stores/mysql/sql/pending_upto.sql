-- The highest number of a row, pending or not, or zero: no pending row has a higher one. Apart from the statement that keeps it, which
-- would lock rows of others; no lock.
SELECT coalesce(max(seq), 0) FROM {event}
