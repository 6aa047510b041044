-- Deletes one join that ended before a time; under the write lock.
DELETE FROM {join} WHERE join_id = ?1 AND status <> 0 AND updated_at < ?2
