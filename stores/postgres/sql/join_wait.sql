-- Says what happens at the end of a join; locks the join.
SELECT answer, detail, fired FROM {join_wait}($1, $2, $3, $4, $5, $6, $7, $8, coalesce($9::timestamptz, clock_timestamp()))
