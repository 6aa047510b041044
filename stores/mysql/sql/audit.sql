-- Records what an operator did.
INSERT INTO {audit} (at, actor, action, target) VALUES {rows}
