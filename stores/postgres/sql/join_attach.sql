-- Makes messages steps of a join; locks the messages by number, then the join.
SELECT answer, detail, fired FROM {join_attach}($1, $2, coalesce($3::timestamptz, clock_timestamp()))
