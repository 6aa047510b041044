-- How many events match; no lock.
SELECT count(*) FROM {selected}
