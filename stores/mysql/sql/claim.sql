-- Claims rows that this transaction has locked. An attempt that a claim that ran out has counted is not counted again: assignments
-- are made from left to right.
UPDATE {event} FORCE INDEX (PRIMARY)
SET attempts = attempts + (locked_at IS NULL), locked_by = {owner}, locked_at = {now},
    locked_until = {now} + INTERVAL {lease_us} MICROSECOND, lock_token = coalesce(lock_token, 0) + 1
WHERE seq IN ({seqs})
