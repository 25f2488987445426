-- Take the lease of a visit and read what its node needs. Safe to repeat with the same token.
-- KEYS partition
-- ARGV run_id visit token lease_ms bundle rest
-- bundle: the agent that will execute it; '' for whichever the run has
-- REST the state's keys to read, and of what an item of a map has written; none for all of them
-- USES store listed indexes dispatch waiting
-- OK   status tries width visit_number attempt turns age_ms wait_ms parked_ms left_ms results context item way own life machine state
--      age_ms since it first began, wait_ms from its step's start to then; parked_ms of its age
--      left_ms until the run's deadline, -1 without one; item: of a map's invocation
--      way, own  where the item has been before, as JSON text, and key, value pairs it has written
--      life     changes when the run is started again or continues after its end
--      machine  the only one whose workers may take the run by now, '' for any
--      results  call id, result pairs of its closed waits that it has not used yet
-- ERR  run_closed   the run has ended, or its deadline has passed
-- ERR  stale_visit  it is done, parked, or held by another delivery: nothing to do
local run = key('run', run_id)
local node = node_of(visit)
local status, width, context, deadline, timeout, number, digest, stepped, created, try,
  machine =
  unpack(redis.call('HMGET', run, 'status', 'width', 'context', 'deadline', 'timeout_ms',
    'n:' .. node, 'digest', 'stepped', 'created', 'try', 'machine'))
if is_over(status, deadline) then return {'run_closed'} end
-- A message of an earlier try with another agent.
if bundle ~= '' and bundle ~= digest then return {'stale_visit'} end
local v = read_visit(run_id, visit)
local again = v and v.token == token
if not v or not (again or v.status == 'ready' or v.status == 'staged') then
  return {'stale_visit'}
end

-- Where an item has been, and what it has written.
local function read_way(map, index)
  local item, way = unpack(redis.call('HMGET', map, 'item:' .. index, 'way:' .. index))
  local names, fields, own = rest, {}, {}
  if #rest == 0 then
    names = {}
    for name in pairs(cjson.decode(way).wrote) do
      names[#names + 1] = name
    end
  end
  for i, name in ipairs(names) do
    fields[i] = 'own:' .. index .. ':' .. name
  end
  for i, value in ipairs(read_fields(map, fields)) do
    if value then
      own[#own + 1] = names[i]
      own[#own + 1] = value
    end
  end
  return item or '', way, own
end

local map_visit, index, later_node = map_of(visit)
local item, way, own = '', '', {}
if map_visit then
  local map = key('map', run_id .. ' ' .. map_visit)
  if later_node == '' then
    item = redis.call('HGET', map, 'item:' .. index) or ''
  else
    item, way, own = read_way(map, index)
  end
end
local state
if #rest == 0 then
  state = redis.call('HGETALL', key('state', run_id))
else
  state = {}
  for i, value in ipairs(read_fields(key('state', run_id), rest)) do
    if value then
      state[#state + 1] = rest[i]
      state[#state + 1] = value
    end
  end
end

local results = {}
if v.rows > 0 then
  for call, row in pairs(read_rows(run_id, visit)) do
    if not row.is_open then
      results[#results + 1] = call
      results[#results + 1] = row.result
    end
  end
end

if status == 'queued' then
  add('HSET', run, {'started', now_ms})
  if timeout then
    deadline = now_ms + tonumber(timeout)
    add('HSET', run, {'deadline', deadline})
    add('ZADD', timers, {deadline, timer('deadline', run_id)})
  end
  write_undone_by({'HSET', run, 'status', status}, 'HSET', run, 'status', 'running')
  tell_lists('run', run_id)
end
if not again then
  v.tries = v.tries + 1
end
if v.status == 'ready' then
  v.status = 'leased'
end
v.token, v.fresh = token, 0
if v.began == 0 then
  v.began, v.wait = now_ms, math.max(0, now_ms - (stepped or created))
elseif v.rests > 0 then
  v.parked = v.parked + math.max(0, now_ms - v.rests)
end
v.rests = 0
write_visit(run_id, visit, v)
write_undone_by(nil, 'ZADD', timers, now_ms + lease_ms, timer('visit', run_id, visit))
return {'OK', {}, v.status, v.tries, tonumber(width), tonumber(number) or 0, v.attempt,
  v.turns, now_ms - v.began, v.wait, v.parked, deadline and tonumber(deadline) - now_ms or -1, results, context,
  item, way, own, created .. ' ' .. (try or ''), machine or '', state}
