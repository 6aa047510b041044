-- One join; no lock to look at it, under the write lock to change it.
SELECT {join_columns} FROM {join} WHERE join_id = ?1
