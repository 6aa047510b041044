-- Marks rows of the queue that are due, by their time, where no lock is skipped; locks the rows, one claim after the other.
UPDATE {event} FORCE INDEX (agenda) SET locked_by = ?
WHERE agenda = -2 AND agenda_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    AND created_at <= {youngest}
ORDER BY agenda_at, seq LIMIT ?
