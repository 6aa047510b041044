-- Claims rows that this transaction has locked.
UPDATE {event} FORCE INDEX (PRIMARY)
SET locked_by = {owner}, locked_at = {now}, locked_until = {now} + INTERVAL {lease_us} MICROSECOND,
    lock_token = coalesce(lock_token, 0) + 1, attempts = attempts + 1
WHERE seq IN ({seqs})
