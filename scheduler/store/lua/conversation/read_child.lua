-- Return the result of a child run, as a visit that waits for its end gets it.
-- KEYS partition
-- ARGV run_id
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   result  JSON text, '' until it has ended
return {'OK', {}, result_of(run_id) or ''}
