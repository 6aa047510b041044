-- The columns of the table of items; no lock.
SELECT lower(column_name) FROM information_schema.columns WHERE table_schema = database() AND table_name = {event_name}
