-- How many items were written in the last minute; no lock.
SELECT count(*) FROM {event} WHERE created_at > statement_timestamp() AT TIME ZONE 'UTC' - interval '1 minute'
