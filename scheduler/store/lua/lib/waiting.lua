-- Parking and resuming: the window's places, and when a run counts as waiting for a person.
--
-- run.busy counts the visits that can go on without a person; at 0 the run is `waiting`.
-- run.free counts the places left in the step's window; absent when the frontier fits into it.

local settle

local function change(run_id, field, by)
  local run = key('run', run_id)
  write_undone_by({'HINCRBY', run, field, 0 - by}, 'HINCRBY', run, field, by)
end

-- Tell the parent's visit that this child now waits for a person, or no longer does.
local function tell_parent(run_id, by)
  local parent = redis.call('HGET', key('run', run_id), 'parent')
  if parent then
    local parent_run = string.match(parent, '^(%S+)')
    change(parent_run, 'busy', by)
    settle(parent_run)
  end
end

function settle(run_id)
  local run = key('run', run_id)
  local status, busy = unpack(redis.call('HMGET', run, 'status', 'busy'))
  if status == 'running' and tonumber(busy) == 0 then
    write_undone_by({'HSET', run, 'status', status}, 'HSET', run, 'status', 'waiting')
    tell_parent(run_id, -1)
  elseif status == 'waiting' and tonumber(busy) > 0 then
    write_undone_by({'HSET', run, 'status', status}, 'HSET', run, 'status', 'running')
    tell_parent(run_id, 1)
  end
end

-- Whether a visit is of a step or a map that has failed for good: nothing of that waits any more.
local function is_void(run_id, visit)
  local map_visit = map_of(visit)
  return redis.call('HGET', key('run', run_id), 'failing')
    or map_visit and redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'halted')
end

-- The same as check_holder for a visit that is to wait.
local function check_parking(run_id, visit, token, status)
  if is_over(status) then return {'run_closed'} end
  if is_void(run_id, visit) then return {'step_failing'} end
  return check_holder(run_id, visit, token, status)
end

-- A map keeps its place while its invocations run in a window of their own.
local function takes_place(visit, v)
  return v.status ~= 'map' and not map_of(visit)
end

-- A visit leaves the window: the next one that was held back takes its place.
local function release_place(run_id, visit)
  if map_of(visit) then return end
  local run = key('run', run_id)
  local free, agent, digest = unpack(redis.call('HMGET', run, 'free', 'agent', 'digest'))
  if not free then return end
  local following = pop(key('pending', run_id))
  if not following then
    change(run_id, 'free', 1)
    return
  end
  local v = read_visit(run_id, following) or new_visit()
  make_ready(run_id, following, v, label_of(run_id, following, agent), digest)
end

-- Give a parked visit what it waited for. It needs a place in the window again.
local function resume(run_id, visit, v, payload)
  local run = key('run', run_id)
  local free, agent, digest = unpack(redis.call('HMGET', run, 'free', 'agent', 'digest'))
  v.payload, v.tries, v.token = payload, 0, '-'
  if free and takes_place(visit, v) then
    if tonumber(free) == 0 then
      v.status = 'held'
      write_visit(run_id, visit, v)
      write('ZREM', timers, timer('visit', run_id, visit))
      push('LPUSH', key('pending', run_id), {visit})
      return
    end
    change(run_id, 'free', -1)
  end
  make_ready(run_id, visit, v, label_of(run_id, visit, agent), digest)
end
