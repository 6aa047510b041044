-- Lets another session purge.
SELECT release_lock(concat('pillarbox.purge.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)))
