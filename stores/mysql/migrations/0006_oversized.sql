-- SQLite sets rows aside by this step that are too large to be rewritten. Nothing changes here, so that the numbers of the steps stay
-- the same in every store.
INSERT INTO {meta} (name, value) VALUES ('schema_step', 6) ON DUPLICATE KEY UPDATE value = greatest(value, VALUES(value));
