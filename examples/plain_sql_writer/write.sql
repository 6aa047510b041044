-- Two events about one order in one transaction: in the manner of seed 000, and with the least columns.
BEGIN;
INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers,
    status, attempts, available_at, created_at, done_at, last_error, locked_by, locked_at)
VALUES (gen_random_uuid()::text, 'OrderPlaced', 'Order', '42', 'acme', '{"order": 42}', '{"source": "psql"}',
    0, 0, now(), now(), NULL, NULL, NULL, NULL);
-- What has a default can be left out.
INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)
VALUES (gen_random_uuid()::text, 'OrderPaid', 'Order', '42', '{"order": 42}');
COMMIT;
-- Optional, and after the commit: without it the rows are found by polling.
NOTIFY outbox_event;
