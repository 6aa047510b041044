-- Deletes items that this transaction has locked.
DELETE FROM {event} WHERE id IN ({ids})
