-- Which messages are members of a join; share locks on these.
SELECT event_id FROM {join_member} FORCE INDEX (PRIMARY) WHERE join_id = {id} AND event_id IN ({ids}) LOCK IN SHARE MODE
