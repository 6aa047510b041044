-- The rows that this transaction has marked; no lock.
SELECT {light_columns}, {now}, {claim_tail} FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_by = ? ORDER BY {order} LIMIT ?
