-- Deletes the attempts of events that go; locks on their rows.
DELETE FROM {attempt} WHERE event_id IN ({ids})
