-- Adds rows in the order given; row locks of the caller's transaction only.
INSERT INTO {event} (event_id, event_type, aggregate_type, aggregate_id, tenant_id, created_at, due_at, expires_at, available_at, lane,
    message_group, message_id, correlation_id, occurred_at, headers, payload, payload_bytes) VALUES {rows}
