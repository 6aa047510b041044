-- Which of these rights on tables that are there this user lacks, and who it is; no lock.
SELECT w.place, current_user::text
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (name, wanted, place)
WHERE to_regclass(w.name) IS NOT NULL AND NOT has_table_privilege(to_regclass(w.name), w.wanted)
ORDER BY w.place
