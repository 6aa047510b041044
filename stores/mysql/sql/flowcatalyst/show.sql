-- One item; no lock.
SELECT {columns} FROM {event} WHERE id = ?
