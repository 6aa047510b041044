-- Queue messages by topic: a worker finds messages that it has handlers for without reading others. Releases
-- that know version 2 still work with these tables, so the version stays 2.
CREATE INDEX IF NOT EXISTS {event_topic} ON {event} (event_type, available_at, seq) WHERE status IN (0, 2) AND lane = -2;

INSERT INTO {meta} (name, value) VALUES ('schema_step', 3) ON CONFLICT (name) DO NOTHING;
