-- Put a message into a teammate's inbox, and record the result of the sending call; at most once.
-- KEYS partition
-- ARGV run_id visit token position turn event target peer most message
-- position: the number of entries in its conversation that the caller knows of
-- target: a run; or '' and peer: the visit of another member of the run's team
-- most: how many unread messages the target may have
-- message: a non-empty JSON object, to which `at` is added in front
-- USES store
-- ERR  run_closed stale_visit
-- ERR  not_reachable  the target is neither a child nor a sibling of the run, nor a normal agent
--                    that has started it, nor another member of its team
-- ERR  not_open       the target has ended
-- ERR  inbox_full     the target has `most` unread messages
local status, parent, member = unpack(redis.call('HMGET', key('run', run_id), 'status', 'parent',
  'member'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
if v.turns ~= tonumber(position) then return {'OK', {}} end

local above, above_visit = string.match(parent or '', '^(%S+) (%S+)$')

-- The run and the member of its team that a child started by this visit of it belongs to.
local function membership(of_run, of_visit)
  return {run = of_run, visit = string.match(of_visit, '^%d+/[^/]+/%d+') or of_visit}
end

local function is_child_of(other)
  return redis.call('LPOS', key('children', other), target)
end

local function is_reachable()
  if target == run_id then return false end
  if target == above then
    return cjson.decode(redis.call('HGET', key('run', above), 'context') or '{}').converses
  end
  return is_child_of(run_id) or above and is_child_of(above)
end

local function has_ended(to)
  local map_visit, index = map_of(to.visit)
  if map_visit then
    return redis.call('HEXISTS', key('map', to.run .. ' ' .. map_visit), 'result:' .. index) == 1
  end
  return redis.call('HEXISTS', key('staged', to.run), node_of(to.visit)) == 1
end

local to  -- nil: the run's own inbox
if peer ~= '' then
  to = member and membership(above, peer)
  if not to or peer == membership(above, above_visit).visit then return {'not_reachable'} end
  if has_ended(to) then return {'not_open'} end
else
  if not is_reachable() then return {'not_reachable'} end
  local other, deadline, of, is_member = unpack(redis.call('HMGET', key('run', target), 'status',
    'deadline', 'parent', 'member'))
  if is_over(other, deadline) then return {'not_open'} end
  if is_member then
    to = membership(string.match(of, '^(%S+) (%S+)$'))
  end
end

-- What an agent has read it has in its state; a graph reads nothing.
local function read_by(reader)
  return reader and tonumber(redis.call('HGET', key('state', reader), 'messages_read') or 0) or 0
end

local text = string.format('{"at":%.0f,', now_ms) .. string.sub(message, 2)
if to then
  local mail = key('mail', to.run)
  local sent, reader = unpack(redis.call('HMGET', mail, 'sent ' .. to.visit,
    'child ' .. to.visit))
  sent = tonumber(sent or 0)
  if sent - read_by(reader) >= tonumber(most) then return {'inbox_full'} end
  write('HSET', mail, 'message ' .. to.visit .. ' ' .. sent, text, 'sent ' .. to.visit, sent + 1)
else
  local messages = key('messages', target)
  if redis.call('LLEN', messages) - read_by(target) >= tonumber(most) then return {'inbox_full'} end
  push('RPUSH', messages, {text})
end
record_turn(run_id, visit, v, turn)
write_visit(run_id, visit, v)
narrate(run_id, event)
return {'OK', {}}
