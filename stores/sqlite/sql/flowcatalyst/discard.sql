-- Deletes one failed item; under the write lock.
DELETE FROM {event} WHERE rowid = ?1 AND status = 'FAILED'
