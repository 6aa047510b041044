-- Records what an operator did.
INSERT INTO {audit} (at, actor, action, target) VALUES ($1, $2, $3, $4)
