-- Ends the pending steps of messages in all their joins; this transaction has locked them.
UPDATE {join_member} FORCE INDEX (event_id) SET status = {state} WHERE event_id IN ({ids}) AND status = 0
