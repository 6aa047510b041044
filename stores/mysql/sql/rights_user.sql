-- Whose rights are used, in which database; no lock.
SELECT current_user(), database()
