-- The database's now; no lock.
SELECT utc_timestamp(6)
