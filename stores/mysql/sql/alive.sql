-- Fails on a connection that is gone; no lock.
SELECT 1
