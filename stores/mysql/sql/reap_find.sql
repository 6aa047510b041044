-- Pending rows whose claim ran out before a time; no lock.
SELECT seq FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_until <= {now} - INTERVAL {age_us} MICROSECOND
ORDER BY seq LIMIT {limit}
