-- Takes the lease of a visit and reads what its node needs.

-- Where an item has been, and what it has written.
local function read_way(map, index, keys)
  local item, way = unpack(redis.call('HMGET', map, 'item:' .. index, 'way:' .. index))
  local names, fields, own = keys, {}, {}
  if #keys == 0 then
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

local function read_item(run_id, visit, keys)
  local map_visit, index, later_node = map_of(visit)
  if not map_visit then return '', '', {} end
  local map = key('map', run_id .. ' ' .. map_visit)
  if later_node ~= '' then return read_way(map, index, keys) end
  return redis.call('HGET', map, 'item:' .. index) or '', '', {}
end

local function read_state(run_id, keys)
  local name, found = key('state', run_id), {}
  if #keys == 0 then return redis.call('HGETALL', name) end
  for i, value in ipairs(read_fields(name, keys)) do
    if value then
      found[#found + 1] = keys[i]
      found[#found + 1] = value
    end
  end
  return found
end

-- The results of closed waits that the visit has not used yet.
local function read_results(run_id, visit, v)
  local results = {}
  if v.rows == 0 then return results end
  for call, row in pairs(read_rows(run_id, visit)) do
    if not row.is_open then
      results[#results + 1] = call
      results[#results + 1] = row.result
    end
  end
  return results
end

local function start_run(run_id, deadline)
  local run = key('run', run_id)
  add('HSET', run, {'started', now_ms})
  if deadline then
    add('HSET', run, {'deadline', deadline})
    add('ZADD', timers, {deadline, timer('deadline', run_id)})
  end
  write_undone_by({'HSET', run, 'status', 'queued'}, 'HSET', run, 'status', 'running')
  tell_others('run', run_id, 'run.started')
end

-- Returns a refusal; or nil and the values of begin_visit's `OK` line, see there.
local function begin(run_id, visit, token, lease_ms, bundle, keys)
  local status, width, context, deadline, timeout, number, digest, stepped, created, try, machine =
    unpack(redis.call('HMGET', key('run', run_id), 'status', 'width', 'context', 'deadline',
      'timeout_ms', 'n:' .. node_of(visit), 'digest', 'stepped', 'created', 'try', 'machine'))
  if is_over(status, deadline) then return {'run_closed'} end
  -- A message of an earlier try with another agent.
  if bundle ~= '' and bundle ~= digest then return {'stale_visit'} end
  local v = read_visit(run_id, visit)
  local again = v and v.token == token
  if not v or not (again or v.status == 'ready' or v.status == 'staged') then
    return {'stale_visit'}
  end
  local item, way, own = read_item(run_id, visit, keys)
  local state, results = read_state(run_id, keys), read_results(run_id, visit, v)
  if status == 'queued' then
    deadline = timeout and now_ms + tonumber(timeout)
    start_run(run_id, deadline)
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
  return nil, {v.status, v.tries, tonumber(width), tonumber(number) or 0, v.attempt, v.turns,
    now_ms - v.began, v.wait, v.parked, deadline and tonumber(deadline) - now_ms or -1, results,
    context, item, way, own, created .. ' ' .. (try or ''), machine or '', state}
end
