-- Rows have no numbers in this layout; no lock.
SELECT CAST(NULL AS bigint)
