-- Start the child run of an agent node and park the node's visit on it, in one step.
-- KEYS partition
-- ARGV run_id visit token timeout_ms child_id start agent digest history event child_event field_count rest
-- REST field_count name, value pairs of the child's record; then key, JSON text pairs of its state
-- USES store dispatch waiting create
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
if not status or FINAL[status] then return {'run_closed'} end
if is_void(run_id, visit) then return {'step_failing'} end
local v = read_visit(run_id, visit)
if not holds(v, token) then return {'stale_visit'} end

local fields, seeds = {}, {}
for i, value in ipairs(rest) do
  if i <= 2 * tonumber(field_count) then
    fields[#fields + 1] = value
  else
    seeds[#seeds + 1] = value
  end
end
v.status, v.token, v.tries, v.payload = 'child', '-', 0, child_id
write_visit(run_id, visit, v)
stop_timer(timer('visit', run_id, visit))
add('ZADD', timers, {now_ms + timeout_ms, timer('child', run_id, visit)})
push('RPUSH', key('children', run_id), {child_id})
narrate(run_id, event)
create(child_id, fields, seeds, start, history, child_event, agent, digest)
release_place(run_id, visit)
return reply()
