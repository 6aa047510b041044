-- A page of events, ascending; no lock.
SELECT {columns}, {record_columns} FROM {selected} AND seq > $7 ORDER BY seq LIMIT $8
