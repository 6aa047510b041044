-- Draws numbers as an insert does, by rows that hold their places until others move there; locks of new rows.
INSERT INTO {event} (event_id, event_type, lane) VALUES {rows}
