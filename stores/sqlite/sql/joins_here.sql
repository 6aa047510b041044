-- Whether there are members of joins at all, so that most settles need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {join_member})
