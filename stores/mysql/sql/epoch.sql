-- The number of the state of groups; no lock.
SELECT value FROM {meta} WHERE name = 'groups_epoch'
