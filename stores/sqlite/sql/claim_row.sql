-- One row that is being claimed, without contents that are larger than a row may be; under the write lock.
SELECT {light_columns}, {left_out}, locked_at IS NOT NULL FROM {event} WHERE seq = ?2
