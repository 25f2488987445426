-- Park a visit on a question to a person.
-- KEYS partition
-- ARGV run_id visit token question event turn
-- turn: what the visit's conversation records of it; '' without a conversation
-- USES store dispatch waiting
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local run = key('run', run_id)
local status = redis.call('HGET', run, 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

v.status, v.token, v.tries = 'asked', '-', 0
if turn ~= '' then
  record_turn(run_id, visit, v, turn)
end
write_visit(run_id, visit, v)
stop_timer(timer('visit', run_id, visit))
add('HSET', key('questions', run_id), {visit, question})
add('ZADD', inbox, {now_ms, run_id .. ' ' .. visit})
narrate(run_id, event)
change(run_id, 'busy', -1)
release_place(run_id, visit)
settle(run_id)
return reply()
