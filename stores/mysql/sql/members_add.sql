-- Makes messages steps of a join; fails where one is.
INSERT INTO {join_member} (join_id, event_id, status, created_at) VALUES {rows}
