-- Tells nodes that the state of groups has changed; lock on its row.
UPDATE {meta} SET value = value + 1 WHERE name = 'groups_epoch'
