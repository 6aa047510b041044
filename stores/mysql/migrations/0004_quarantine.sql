-- What is quarantined of a slot: how many of its holders were evicted since it was last trusted, and the highest pending number when
-- the last of them was. Releases that know version 2 work on, so that it stays version 2.
SET @pillarbox_quarantine = (SELECT CASE WHEN EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = database() AND table_name = {slot_name} AND column_name = 'quarantined_upto')
    THEN 'DO 0' ELSE 'ALTER TABLE {slot} ADD COLUMN evictions int NOT NULL DEFAULT 0, ADD COLUMN quarantined_upto bigint NOT NULL DEFAULT 0' END);
PREPARE pillarbox_quarantine FROM @pillarbox_quarantine;
EXECUTE pillarbox_quarantine;
DEALLOCATE PREPARE pillarbox_quarantine;

INSERT INTO {meta} (name, value) VALUES ('schema_step', 4) ON DUPLICATE KEY UPDATE value = greatest(value, VALUES(value));
