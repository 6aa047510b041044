-- Makes joining, beating and leaving exclusive against each other until the transaction ends.
SELECT value, utc_timestamp(6) FROM {meta} WHERE name = 'membership' FOR UPDATE
