-- Makes those who give new numbers wait for each other until the transaction ends, and tells readers of what is not committed that
-- numbers which they have seen may be gone for a moment; locks one row.
UPDATE {meta} SET value = 1 WHERE name = 'numbers'
