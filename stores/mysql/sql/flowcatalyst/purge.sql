-- Deletes items of one status that ended before a time; locks their rows.
DELETE FROM {event} WHERE status = ? AND coalesce(processed_at, created_at) < {now} - INTERVAL ? MICROSECOND LIMIT ?
