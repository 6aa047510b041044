-- Deletes items that were written before a time, whatever their status; locks their rows.
DELETE FROM {event} WHERE created_at < {now} - INTERVAL ? MICROSECOND LIMIT ?
