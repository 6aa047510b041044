-- A page of events, ascending, with or without their contents; no lock.
SELECT {listed_columns}, {record_columns} FROM {selected} AND seq > $7 ORDER BY seq LIMIT $8
