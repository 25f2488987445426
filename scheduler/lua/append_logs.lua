-- Keep output of a visit with its run, the newest entries only; also of one that just ended.
-- KEYS partition
-- ARGV run_id limit rest
-- REST the entries
-- USES store
local logs = key('logs', run_id)
local expires_in = redis.call('PTTL', key('run', run_id))  -- -1: not yet; -2: it was forgotten
if expires_in == -2 then return {'OK', {}} end

in_pieces('RPUSH', logs, rest)
redis.call('LTRIM', logs, -limit, -1)
if expires_in >= 0 then
  redis.call('PEXPIRE', logs, expires_in)
end
return {'OK', {}}
