-- Deliver something that a visit waits for, an answer or a message; only the first one counts.
-- KEYS partition
-- ARGV run_id visit call result event
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- ERR  run_closed   the run has ended, or its deadline has passed
-- ERR  not_waiting  the visit does not wait for that, or no longer does
local status, deadline = unpack(redis.call('HMGET', key('run', run_id), 'status', 'deadline'))
if is_over(status, deadline) then return {'run_closed'} end
if not close_wait(run_id, visit, call, result, event) then return {'not_waiting'} end
narrate(run_id, event)
return reply()
