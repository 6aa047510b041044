-- Gives one claimed item up; under the write lock.
UPDATE {event}
SET status = 'FAILED', processed_at = max(?5, processed_at), error_message = ?3, retry_count = retry_count + ?4
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
