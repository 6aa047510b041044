-- Fails where the table of nodes lacks the column that an earlier release did not make; no lock.
SELECT state FROM {node} LIMIT 0
