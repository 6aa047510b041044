-- Items to be settled; locks their rows in the order of their keys, skips those that others have locked where that can be.
SELECT id, status, processed_at FROM {event} WHERE id IN ({ids}) ORDER BY id FOR UPDATE {skip_locked}
