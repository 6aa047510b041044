-- Marks rows done that this transaction has locked.
UPDATE {event} FORCE INDEX (PRIMARY)
SET status = 1, done_at = {now}, locked_by = NULL, locked_at = NULL, locked_until = NULL
WHERE {rows}
