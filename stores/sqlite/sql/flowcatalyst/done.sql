-- Marks one claimed item completed; under the write lock.
UPDATE {event} SET status = 'COMPLETED', processed_at = max(?3, processed_at), error_message = NULL
WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
