-- Put a message into a teammate's inbox, and record the result of the sending call; at most once.
-- KEYS partition
-- ARGV run_id visit token position turn event target most message
-- position: the number of entries in its conversation that the caller knows of
-- most: how many unread messages the target may have
-- message: a non-empty JSON object, to which `at` is added in front
-- USES store
-- ERR  run_closed stale_visit
-- ERR  not_reachable  the target is neither a child nor a sibling of the run, nor a normal agent
--                    that has started it
-- ERR  not_open       the target has ended
-- ERR  inbox_full     the target has `most` unread messages
local status, parent = unpack(redis.call('HMGET', key('run', run_id), 'status', 'parent'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
if v.turns ~= tonumber(position) then return {'OK', {}} end

local function is_child_of(other)
  return redis.call('LPOS', key('children', other), target)
end

local above = parent and string.match(parent, '^(%S+) ')

local function is_reachable()
  if target == run_id then return false end
  if target == above then
    return cjson.decode(redis.call('HGET', key('run', above), 'context') or '{}').converses
  end
  return is_child_of(run_id) or above and is_child_of(above)
end

if not is_reachable() then return {'not_reachable'} end
if is_over(unpack(redis.call('HMGET', key('run', target), 'status', 'deadline'))) then
  return {'not_open'}
end
-- What an agent has read it has in its state; a graph reads nothing.
local read = tonumber(redis.call('HGET', key('state', target), 'messages_read') or 0) or 0
if redis.call('LLEN', key('messages', target)) - read >= tonumber(most) then
  return {'inbox_full'}
end
push('RPUSH', key('messages', target), {string.format('{"at":%.0f,', now_ms)
  .. string.sub(message, 2)})
record_turn(run_id, visit, v, turn)
write_visit(run_id, visit, v)
narrate(run_id, event)
return {'OK', {}}
