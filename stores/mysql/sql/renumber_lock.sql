-- Makes those who give new numbers wait for each other until the transaction ends.
SELECT value FROM {meta} WHERE name = 'numbers' FOR UPDATE
