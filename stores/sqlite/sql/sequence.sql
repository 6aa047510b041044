-- The last number that was drawn; no lock.
SELECT seq FROM sqlite_sequence WHERE name = {event_name} COLLATE NOCASE
