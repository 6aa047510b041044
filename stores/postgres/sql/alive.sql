-- Fails in a transaction that can only be rolled back; no lock.
SELECT 1
