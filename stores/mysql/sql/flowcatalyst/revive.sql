-- Brings failed items back; their time stays, so that the next claim has a later one; locks on their rows.
UPDATE {event} SET status = 'PENDING', retry_count = 0, error_message = NULL, created_at = created_at, processed_at = processed_at
WHERE id IN ({ids}) AND status = 'FAILED'
