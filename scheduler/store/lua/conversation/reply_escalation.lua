-- Answer a question of a run below this one with the reply of its root's model, and record the
-- result of the answering call; at most once.
-- KEYS partition
-- ARGV run_id visit token position turn event child child_visit call result child_event
-- position: the number of entries in its conversation that the caller knows of
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- ERR  run_closed stale_visit
-- ERR  not_waiting  the question was answered meanwhile, or has timed out
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
if v.turns ~= tonumber(position) then return reply() end

local asked = child .. ' ' .. question_of(child_visit, call)
if not redis.call('ZSCORE', key('escalations', run_id), asked)
  or is_over(unpack(redis.call('HMGET', key('run', child), 'status', 'deadline')))
  or not close_wait(child, child_visit, call, result, child_event) then
  return {'not_waiting'}
end
narrate(child, child_event)
v = read_visit(run_id, visit)  -- it may no longer be waiting only for people
record_turn(run_id, visit, v, turn)
write_visit(run_id, visit, v)
narrate(run_id, event)
return reply()
