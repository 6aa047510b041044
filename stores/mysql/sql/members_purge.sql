-- Deletes the members of joins; locks on the rows.
DELETE FROM {join_member} WHERE join_id IN ({ids})
