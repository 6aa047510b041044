-- Deletes the members of one join; under the write lock.
DELETE FROM {join_member} WHERE join_id = ?1
