-- PostgreSQL makes inserts cheaper by this step. Nothing changes here, so that the numbers of the steps stay the same in every store.
INSERT INTO {meta} (name, value) VALUES ('schema_step', 5) ON DUPLICATE KEY UPDATE value = greatest(value, VALUES(value));
