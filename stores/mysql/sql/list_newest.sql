-- A page of events, descending; no lock.
SELECT {columns}, {record_columns} FROM {selected} AND seq < ? ORDER BY seq DESC LIMIT ?
