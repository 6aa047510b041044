-- Items that nobody has claimed; locks their rows in the order of their keys.
SELECT id FROM {event} WHERE id IN ({ids}) AND status = 'PENDING' ORDER BY id FOR UPDATE
