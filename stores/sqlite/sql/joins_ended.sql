-- Joins that ended before a time; under the write lock.
SELECT join_id FROM {join} INDEXED BY {join_ended} WHERE status <> 0 AND updated_at < ?1 ORDER BY updated_at LIMIT ?2
