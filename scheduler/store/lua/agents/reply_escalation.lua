-- Give a run below this one the answer that its root's model has for it, and record the result of the
-- call that does: once.
-- KEYS partition
-- ARGV run_id visit token position turn event child child_visit call result child_event
-- position: how many entries of its conversation the caller knows of
-- USES store listed indexes dispatch waiting waits kept finish
-- ERR  run_closed stale_visit
-- ERR  not_waiting  somebody was faster, or the time for it is over
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
if v.turns ~= tonumber(position) then return reply() end

local asked = child .. ' ' .. question_of(child_visit, call)
if not redis.call('ZSCORE', key('escalations', run_id), asked)
  or is_over(unpack(redis.call('HMGET', key('run', child), 'status', 'deadline')))
  or not close_wait(child, child_visit, call, result) then
  return {'not_waiting'}
end
narrate(child, child_event)
v = read_visit(run_id, visit)  -- what it waits for may be no longer still
record_turn(run_id, visit, v, turn)
write_visit(run_id, visit, v)
narrate(run_id, event)
return reply()
