-- Gives one claimed item back untouched; under the write lock.
UPDATE {event} SET status = 'PENDING' WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
