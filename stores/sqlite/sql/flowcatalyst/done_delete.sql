-- Deletes one claimed item that is done; under the write lock.
DELETE FROM {event} WHERE id = ?1 AND status = 'PROCESSING' AND processed_at = ?2
