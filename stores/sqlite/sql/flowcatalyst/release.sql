-- Gives one claimed item back untouched, with an attempt that was counted ahead; under the write lock.
UPDATE {event} SET status = 'PENDING', retry_count = max(retry_count - ?3, 0) WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
