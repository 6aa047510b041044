-- The highest number of a pending row, or zero; no lock.
SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2)
