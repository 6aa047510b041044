-- Adds the mark of joins to tables of version 1; under the write lock.
ALTER TABLE {event} ADD COLUMN joined INTEGER
