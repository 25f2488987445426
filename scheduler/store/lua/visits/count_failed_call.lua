-- Count a model call that has failed, in the sums of its run, of the runs above it and of the hour.
-- KEYS partition
-- ARGV run_id node model
-- USES store hours usage
count_failed_call(run_id, node, model)
return {'OK', {}}
