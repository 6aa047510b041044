-- Holds the row that a probe looks for, until the transaction ends.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE
