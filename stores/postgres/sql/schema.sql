-- Makes the schema of the tables, unless it is there.
DO $$ BEGIN IF to_regnamespace({schema_name}) IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$;
