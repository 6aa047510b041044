-- When the first item that waits was written, if slot 0 is in the mask; no lock.
SELECT created_at FROM {event} WHERE status = 'PENDING' AND ?1 IS NOT NULL AND ?2 & 1 AND ?3 IS NOT NULL
ORDER BY message_group, created_at LIMIT 1
