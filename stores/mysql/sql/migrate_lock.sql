-- Makes migrations wait for each other until the session lets go.
SELECT get_lock(concat('pillarbox.', left(sha2(concat(database(), '.', {meta_name}), 256), 32)), ?)
