-- Whether no other session purges this outbox; none does until this one lets go or ends.
SELECT get_lock(concat('pillarbox.purge.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)), 0)
