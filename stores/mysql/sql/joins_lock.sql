-- Joins as they stand, without what is only for people; locks them in the order of their ids.
SELECT {join_state} FROM {join} FORCE INDEX (PRIMARY) WHERE join_id IN ({ids}) ORDER BY join_id FOR UPDATE
