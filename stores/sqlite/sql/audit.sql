-- Records what an operator did; under the write lock.
INSERT INTO {audit} (at, actor, action, target) VALUES (?1, ?2, ?3, ?4)
