-- Gives one claimed item back for another attempt; under the write lock.
UPDATE {event} SET status = 'PENDING', error_message = ?3, retry_count = retry_count + ?4
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
