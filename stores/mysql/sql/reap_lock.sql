-- Those that still are so, in order; locks them, skips those that others have locked.
SELECT seq FROM {event} FORCE INDEX (PRIMARY)
WHERE seq IN ({seqs}) AND status IN (0, 2) AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND ORDER BY seq FOR UPDATE {skip_locked}
