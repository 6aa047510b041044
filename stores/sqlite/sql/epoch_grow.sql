-- Tells nodes that the state of groups has changed; under the write lock.
UPDATE {meta} SET value = value + 1 WHERE name = 'groups_epoch'
