-- A page of the joins with one grouping key, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE ($1::smallint IS NULL OR status = $1) AND grouping_key = $3
ORDER BY created_at DESC, join_id DESC LIMIT $2
