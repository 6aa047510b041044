-- When items were written, newest first, for a reader that stops early; no lock.
SELECT created_at FROM {event} ORDER BY id DESC
