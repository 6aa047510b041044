-- Whether the table of nodes has the column that an earlier release did not make; no lock.
SELECT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({node_name}) AND attname = 'state' AND NOT attisdropped)
