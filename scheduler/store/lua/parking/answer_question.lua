-- Accept the first answer to an open question and let its visit go on.
-- KEYS partition
-- ARGV run_id visit answer event
-- USES store dispatch waiting
-- ERR  run_closed      the run is over, or its time is
-- ERR  not_asked       no such question is open (any more)
local run = key('run', run_id)
local status, deadline = unpack(redis.call('HMGET', run, 'status', 'deadline'))
if is_over(status, deadline) then return {'run_closed'} end
local v = read_visit(run_id, visit)
if not v or v.status ~= 'asked' then return {'not_asked'} end

write('HDEL', key('questions', run_id), visit)
write('ZREM', inbox, run_id .. ' ' .. visit)
change(run_id, 'busy', 1)
narrate(run_id, event)
resume(run_id, visit, v, answer)
settle(run_id)
return reply()
