-- A page of events, descending; no lock.
SELECT {columns}, {record_columns} FROM {selected} AND seq < $7 ORDER BY seq DESC LIMIT $8
