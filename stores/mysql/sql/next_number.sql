-- The next number that the table gives; no lock.
SELECT CAST(auto_increment AS SIGNED) FROM information_schema.tables WHERE table_schema = database() AND table_name = {event_name}
