-- PostgreSQL makes inserts cheaper by this step. Nothing changes here, so that the numbers of the steps stay the same in every store.
UPDATE {meta} SET value = 5 WHERE name = 'schema_step' AND value = 4;
