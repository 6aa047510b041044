-- A page of events, ascending; no lock.
SELECT {columns}, {record_columns} FROM {selected} AND seq > ? ORDER BY seq LIMIT ?
