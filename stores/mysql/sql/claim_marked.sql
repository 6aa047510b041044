-- The rows that this transaction has marked; no lock.
SELECT {columns}, {now}, last_error FROM {event} FORCE INDEX (pending) WHERE pending = 1 AND locked_by = ? ORDER BY {order} LIMIT ?
