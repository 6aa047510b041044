-- Counts of the tables beside the outbox; no lock.
SELECT (SELECT count(*) FROM {slot} WHERE holder IS NULL), (SELECT count(*) FROM {group} WHERE state = 'blocked'),
    (SELECT count(*) FROM {group} WHERE state = 'paused'), (SELECT count(*) FROM {node} WHERE expires_at > utc_timestamp(6))
