-- Dead events whose rows are too large to be rewritten: an UPDATE would hold the row in memory, twice. What the row itself says of
-- these columns does not count. Releases that know version 2 work on, so that it stays version 2.
CREATE TABLE IF NOT EXISTS {oversized} (
    seq          INTEGER PRIMARY KEY,
    event_id     TEXT    NOT NULL,
    attempts     INTEGER NOT NULL,
    done_at      INTEGER NOT NULL,
    last_error   TEXT    NOT NULL,
    processed_by TEXT
);
UPDATE {meta} SET value = 6 WHERE name = 'schema_step' AND value = 5;
