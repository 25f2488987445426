-- Put shorter entries in place of the first ones of a run's history, unless that was done meanwhile.
-- KEYS partition
-- ARGV run_id folds count saved fold_at rest
-- folds: how often it had been done when the entries were read; count: entries that are replaced
-- saved: bytes that this saves; fold_at: the size at which it is to be done again
-- REST the new entries
-- USES store
local run, history = key('run', run_id), key('history', run_id)
local status, done, bytes = unpack(redis.call('HMGET', run, 'status', 'history_folds',
  'history_bytes'))
-- Of a run that is over the list expires, and nothing is added to it.
if not bytes or FINAL[status] or (done or '0') ~= folds then return {'OK', {}} end

local newer = redis.call('LRANGE', history, count, -1)
remove_now(history)
push('RPUSH', history, rest)
push('RPUSH', history, newer)
write('HSET', run, 'history_folds', folds + 1, 'history_bytes', bytes - saved,
  'history_fold_at', fold_at)
return {'OK', {}}
