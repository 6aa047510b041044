-- Marks rows that are due, but those of the queue, in order, where no lock is skipped; locks the rows, one claim after the other.
UPDATE {event} FORCE INDEX (pending) SET locked_by = ?
WHERE pending = 1 AND slot <> -2 AND available_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY seq LIMIT ?
