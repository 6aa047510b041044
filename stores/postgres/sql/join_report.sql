-- Says that a step has ended; locks the member, then the join.
SELECT answer, detail, fired FROM {join_report}($1, $2, $3::integer, coalesce($4::timestamptz, clock_timestamp()))
