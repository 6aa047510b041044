-- What a node tells of itself; nodes of an earlier release leave it empty; takes the write lock.
ALTER TABLE {node} ADD COLUMN state text
