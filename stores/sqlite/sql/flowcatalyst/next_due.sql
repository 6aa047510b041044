-- Nothing is delayed in this layout; no lock.
SELECT NULL
