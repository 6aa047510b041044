-- Deletes rows that this transaction has locked.
DELETE FROM {event} WHERE {rows}
