-- A page of the joins that share a grouping key, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE grouping_key = ?3 AND (?1 IS NULL OR status = ?1)
ORDER BY created_at DESC, join_id DESC LIMIT ?2
