-- Start a child run for a model, at most once; the turn of its parent goes on.
-- KEYS partition
-- ARGV run_id visit token most child_id start agent digest history event child_event field_count rest
-- most: how many such children of the run may be alive at once
-- REST field_count name, value pairs of the child's record; then key, JSON text pairs of its state
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish create
-- OK   outcome alive  started, or full: `alive` children are alive already
-- ERR  run_closed stale_visit
-- ERR  id_taken  another child of the run has an id with the same last digits, or this child is one
--                of an earlier try
local run = key('run', run_id)
local status, spawns = unpack(redis.call('HMGET', run, 'status', 'spawns'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
-- A repeated call has the same id for its child; but what an earlier try of the run had to cancel
-- starts anew.
local before, created = unpack(redis.call('HMGET', key('run', child_id), 'status', 'created'))
if before then
  local was_in_vain = FINAL[before] and before ~= 'succeeded' and tonumber(created) < v.began
  return was_in_vain and {'id_taken'} or reply('started', 0)
end

local spawned, handle = key('spawned', run_id), handle_of(child_id)
if redis.call('HEXISTS', spawned, handle) == 1 then return {'id_taken'} end
local alive = redis.call('HLEN', spawned)
if alive >= tonumber(most) then return reply('full', alive) end

if not spawns then
  add('HSET', run, {'spawns', 1})
end
add('HSET', spawned, {handle, child_id})
push('RPUSH', key('children', run_id), {child_id})
narrate(run_id, event)
local fields, seeds = split(rest, tonumber(field_count))
create(child_id, fields, seeds, child_event, agent, digest, no_past(start, history))
return reply('started', alive + 1)
