-- A page of joins, newest first; no lock.
SELECT {join_columns} FROM {join} WHERE {matches} ORDER BY created_at DESC, join_id DESC LIMIT {limit}
