-- Messages of the queue by topic: a worker finds those it has handlers for without looking at others. Releases that know version 2
-- work on, so that it stays version 2. The column is virtual: making it does not copy the table.
SET @pillarbox_topic = (SELECT CASE WHEN EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = {event_name} AND column_name = 'topic')
    THEN 'DO 0' ELSE 'ALTER TABLE {event} ADD COLUMN topic varchar(255) GENERATED ALWAYS AS (CASE WHEN status IN (0, 2) AND lane = -2 THEN event_type END) VIRTUAL' END);
PREPARE pillarbox_topic FROM @pillarbox_topic;
EXECUTE pillarbox_topic;
SET @pillarbox_topic = (SELECT CASE WHEN EXISTS (
        SELECT 1 FROM information_schema.statistics
        WHERE table_schema = database() AND table_name = {event_name} AND index_name = 'topic')
    THEN 'DO 0' ELSE 'ALTER TABLE {event} ADD KEY topic (topic, available_at, seq)' END);
PREPARE pillarbox_topic FROM @pillarbox_topic;
EXECUTE pillarbox_topic;
DEALLOCATE PREPARE pillarbox_topic;

INSERT IGNORE INTO {meta} (name, value) VALUES ('schema_step', 3);
