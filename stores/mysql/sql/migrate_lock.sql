-- Makes migrations wait for each other until the session lets go.
SELECT get_lock(concat('pillarbox.', left(sha1(concat(database(), '.', {meta_name})), 32)), ?)
