-- The last actions of operators; no lock.
SELECT at, actor, action, target FROM {audit} ORDER BY id DESC LIMIT ?
