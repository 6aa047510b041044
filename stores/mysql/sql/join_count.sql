-- Adds members to what a join counts, which this transaction has locked.
UPDATE {join} SET attached_steps = attached_steps + {attached}, completed_steps = completed_steps + {completed},
    failed_steps = failed_steps + {failed}, updated_at = {now} WHERE join_id = {id}
