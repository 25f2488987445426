-- Start the child run of an agent node and park the node's visit on it, in one step.
-- KEYS partition
-- ARGV run_id visit token timeout_ms member child_id start agent digest history event child_event field_count rest
-- timeout_ms: -1: no limit
-- member: the visit whose messages the child reads, as the member of a team; or ''
-- REST field_count name, value pairs of the child's record; then key, JSON text pairs of its state
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish create
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local fields, seeds = split(rest, tonumber(field_count))
push('RPUSH', key('children', run_id), {child_id})
narrate(run_id, event)
create(child_id, fields, seeds, child_event, agent, digest, no_past(start, history))
if member ~= '' then
  write('HSET', key('mail', run_id), 'child ' .. member, child_id)
  write('HSET', key('run', run_id), 'mail', '1')
end
park(run_id, visit, v, 'all', {
  {call = 'child', kind = 'child', allowed = tonumber(timeout_ms), detail = child_id}})
return reply()
