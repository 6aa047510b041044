-- Tells nodes that the state of groups has changed; lock on its row.
UPDATE {meta} SET value = value + ? WHERE name = 'groups_epoch'
