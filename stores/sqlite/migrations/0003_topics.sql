-- Messages of the queue by topic: a worker finds those it has handlers for without looking at others. Releases that know version 2
-- work on, so that it stays version 2.
CREATE INDEX IF NOT EXISTS {event_topic} ON {event} (event_type, available_at, seq) WHERE status IN (0, 2) AND lane = -2;

INSERT OR IGNORE INTO {meta} (name, value)
SELECT 'schema_step', 3 FROM {meta} WHERE name = 'schema_version' AND value >= 2;
