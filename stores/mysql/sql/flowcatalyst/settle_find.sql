-- Items to be settled; locks their rows in the order of their keys.
SELECT id, status, processed_at FROM {event} WHERE id IN ({ids}) ORDER BY id FOR UPDATE
