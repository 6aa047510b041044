-- Joins that ended before a time, which were started before it too; locks them, skips those that others have locked.
SELECT join_id FROM {join} FORCE INDEX (created_at)
WHERE created_at < {now} - INTERVAL {age_us} MICROSECOND AND updated_at < {now} - INTERVAL {age_us} MICROSECOND AND status <> 0
ORDER BY created_at, join_id LIMIT {limit} FOR UPDATE {skip_locked}
