-- The highest number of a pending row, or zero; under the write lock.
SELECT coalesce(max(seq), 0) FROM {event} WHERE status IN (0, 2)
