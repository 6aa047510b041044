-- Must not answer with a row that someone holds.
SELECT value FROM {meta} WHERE name = 'probe' FOR UPDATE SKIP LOCKED
