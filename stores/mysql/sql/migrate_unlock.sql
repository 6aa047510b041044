-- Lets the next migration begin.
SELECT release_lock(concat('pillarbox.', left(sha1(concat(database(), '.', {meta_name})), 32)))
