-- The database's now; no lock.
SELECT clock_timestamp()
