-- One join and its members by their ids, as they stood at one moment; no lock.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION READ ONLY;
SELECT {join_columns} FROM {join} WHERE join_id = {id};
SELECT event_id, status, created_at FROM {join_member} WHERE join_id = {id} ORDER BY event_id LIMIT {limit};
COMMIT
