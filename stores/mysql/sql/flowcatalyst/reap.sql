-- Gives items back that were claimed before a time, those without a time by when they were written; locks the rows. The time
-- stays, so that the next claim has a later one.
UPDATE {event} SET status = 'PENDING', created_at = created_at, processed_at = processed_at
WHERE status = 'PROCESSING' AND coalesce(processed_at, created_at) < {now} - INTERVAL ? MICROSECOND LIMIT ?
