-- One event; no lock.
SELECT {columns}, {record_columns} FROM {event} WHERE event_id = ?
