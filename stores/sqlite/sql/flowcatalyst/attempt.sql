-- Counts an attempt that is about to be made on one claimed item; under the write lock.
UPDATE {event} SET retry_count = retry_count + 1 WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
