-- Brings one failed item back; its time stays, so that the next claim has a later one; lock on its row.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL
WHERE id = $1 AND status = 'FAILED' AND $2::timestamptz IS NOT NULL
