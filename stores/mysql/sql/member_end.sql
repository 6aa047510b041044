-- Ends a pending step of one join; this transaction has locked it.
UPDATE {join_member} SET status = {state} WHERE join_id = {id} AND event_id = {message} AND status = 0
