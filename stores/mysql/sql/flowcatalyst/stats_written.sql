-- How many items were written in the last minute; no lock.
SELECT count(*) FROM {event} WHERE created_at > utc_timestamp(6) - INTERVAL 1 MINUTE
