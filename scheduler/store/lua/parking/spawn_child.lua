-- Start the child run of an agent node and park the node's visit on it, in one step.
-- KEYS partition
-- ARGV run_id visit token timeout_ms child_id start agent digest history event child_event field_count rest
-- REST field_count name, value pairs of the child's record; then key, JSON text pairs of its state
-- USES store dispatch waiting create
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local fields, seeds = split(rest, tonumber(field_count))
v.status, v.token, v.tries, v.payload = 'child', '-', 0, child_id
write_visit(run_id, visit, v)
stop_timer(timer('visit', run_id, visit))
add('ZADD', timers, {now_ms + timeout_ms, timer('child', run_id, visit)})
push('RPUSH', key('children', run_id), {child_id})
narrate(run_id, event)
create(child_id, fields, seeds, start, history, child_event, agent, digest)
release_place(run_id, visit)
return reply()
