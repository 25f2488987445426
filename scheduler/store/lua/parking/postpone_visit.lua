-- Let a visit rest until its next attempt, or the rest of this one; it holds no worker meanwhile.
-- KEYS partition
-- ARGV run_id visit token delay_ms event turn usage
-- turn: how the attempt ended, for the visit's conversation; '' if it goes on later
-- USES store dispatch waiting
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local due = now_ms + delay_ms
v.status, v.token, v.tries = 'backoff', '-', 0
if turn ~= '' then
  v.attempt = v.attempt + 1
  record_turn(run_id, visit, v, turn)
else
  local recalled = key('recalled', run_id .. ' ' .. visit)
  due = math.min(due, tonumber(redis.call('GET', recalled) or due))
  remove(recalled)
end
write_visit(run_id, visit, v)
write('ZADD', timers, due, timer('visit', run_id, visit))
add_usage(run_id, usage)
narrate(run_id, event)
release_place(run_id, visit)
return reply()
