-- What a node tells of itself; nodes of an earlier release leave it empty.
ALTER TABLE {node} ADD COLUMN state text
