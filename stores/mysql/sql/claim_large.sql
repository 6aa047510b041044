-- Rows that this transaction has locked, with contents up to what a row may have.
SELECT {light_columns}, {now}, {claim_tail} FROM {event} FORCE INDEX (PRIMARY) WHERE seq IN ({seqs})
