-- Ends a pending join that this transaction has locked.
UPDATE {join} SET status = {status}, fired_id = {fired}, updated_at = {now} WHERE join_id = {id} AND status = 0
