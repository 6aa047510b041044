-- The pending steps of messages, whose rows this transaction has locked; locks them.
SELECT join_id, event_id FROM {join_member} FORCE INDEX (event_id)
WHERE event_id IN ({ids}) AND status = 0 ORDER BY event_id, join_id FOR UPDATE
