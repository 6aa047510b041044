-- Adds one item; under the caller's write lock.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at) VALUES (?1, ?2, ?3, ?4, 'PENDING', 0, ?5)
