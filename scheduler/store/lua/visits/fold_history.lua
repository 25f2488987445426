-- Replace the first entries of a run's history by shorter ones, unless that was done meanwhile.
-- KEYS partition
-- ARGV run_id folds count saved fold_at rest
-- folds: number of folds when the entries were read; count: number of entries replaced
-- saved: bytes saved; fold_at: the size at which to fold again
-- REST the new entries
-- USES store
local run, history = key('run', run_id), key('history', run_id)
local status, done, bytes = unpack(redis.call('HMGET', run, 'status', 'history_folds',
  'history_bytes'))
-- The list of an ended run expires, and gets no more entries.
if not bytes or FINAL[status] or (done or '0') ~= folds then return {'OK', {}} end

local newer = redis.call('LRANGE', history, count, -1)
remove_now(history)
push('RPUSH', history, rest)
push('RPUSH', history, newer)
write('HSET', run, 'history_folds', folds + 1, 'history_bytes', bytes - saved,
  'history_fold_at', fold_at)
return {'OK', {}}
