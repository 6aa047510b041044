-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE ($1::smallint IS NULL OR status = $1) ORDER BY created_at DESC, join_id DESC LIMIT $2
