-- Notes why one claimed item waits; under the write lock.
UPDATE {event} SET error_message = ?3 WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
