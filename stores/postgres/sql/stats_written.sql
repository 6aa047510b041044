-- How many rows were written in the last minute; no lock.
SELECT count(*) FROM {event} WHERE created_at > statement_timestamp() - interval '1 minute'
