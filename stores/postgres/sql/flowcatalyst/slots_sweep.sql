-- There are no lanes to look for in this layout; no lock.
SELECT 1
