-- Brings one failed item back; its time stays, so that the next claim has a later one; under the write lock.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL
WHERE rowid = ?1 AND status = 'FAILED' AND ?2 IS NOT NULL
