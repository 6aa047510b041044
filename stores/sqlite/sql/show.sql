-- One event; no lock.
SELECT {columns}, {record_columns} FROM {event} WHERE event_id = ?1 AND status IN (0, 1, 2, 3)
