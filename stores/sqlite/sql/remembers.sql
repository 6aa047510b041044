-- Whether there are failed attempts at all, so that most deletes need not look for theirs; no lock.
SELECT EXISTS (SELECT 1 FROM {attempt})
