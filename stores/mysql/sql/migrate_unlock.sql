-- Lets the next migration begin.
SELECT release_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)))
