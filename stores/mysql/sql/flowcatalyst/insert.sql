-- Adds items; row locks of the caller's transaction only.
INSERT INTO {event} (id, type, message_group, payload, status, retry_count, created_at, processed_at) VALUES {rows}
