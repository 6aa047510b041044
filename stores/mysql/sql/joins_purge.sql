-- Deletes joins that ended before a time; locks on the rows.
DELETE FROM {join} WHERE join_id IN ({ids}) AND status <> 0 AND updated_at < {now} - INTERVAL {age_us} MICROSECOND
