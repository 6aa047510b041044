-- Claims one item at a time that is its token; under the write lock.
UPDATE {event} SET status = 'PROCESSING', processed_at = ?2 WHERE rowid = ?1
