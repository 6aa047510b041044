-- Gives slots and lanes to a node; under the membership lock.
INSERT INTO {slot} (slot, holder) VALUES {rows} ON DUPLICATE KEY UPDATE holder = VALUES(holder), suspect = 0
