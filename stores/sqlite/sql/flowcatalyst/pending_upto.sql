-- Rows have no numbers in this layout; no lock.
SELECT NULL
