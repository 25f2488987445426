-- Reads everything a run has in its partition.

-- Redis tells of a hash in any order, and in another one while it enlarges its table.
local function sorted(names)
  table.sort(names)
  return names
end

local function sorted_hash(target)
  local found, names, values = redis.call('HGETALL', target), {}, {}
  for i = 1, #found, 2 do
    names[#names + 1] = found[i]
    values[found[i]] = found[i + 1]
  end
  local pairs_of = {}
  for _, name in ipairs(sorted(names)) do
    pairs_of[#pairs_of + 1] = name
    pairs_of[#pairs_of + 1] = values[name]
  end
  return pairs_of
end

local function score(index, member)
  return redis.call('ZSCORE', index, member) or ''
end

-- What is kept of a map; '' where there is none. Of the items handed out it names those that have
-- no result and lack their invocation, or that invocation's item: index, is open, has its item.
local function inspect_map(run_id, visit)
  local map = key('map', run_id .. ' ' .. visit)
  if redis.call('EXISTS', map) == 0 then return '' end
  local inflight, following, total, halted =
    unpack(redis.call('HMGET', map, 'inflight', 'next', 'total', 'halted'))
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', map)) do
    fields[field] = true
  end
  local missing = {}
  for index = 0, (tonumber(following) or 0) - 1 do
    if not fields['result:' .. index] then
      local open = redis.call('HEXISTS', key('visits', run_id),
        invocation_of(visit, index))
      local item = fields['item:' .. index] and 1 or 0
      if open == 0 or item == 0 then
        missing[#missing + 1] = {index, open, item}
      end
    end
  end
  return {inflight or '0', following or '0', total or '0', halted or '', missing}
end

local function inspect_visits(run_id, rest)
  local named, visits = {}, {}
  local function add(names)
    for _, visit in ipairs(names) do
      if not named[visit] then
        named[visit] = true
        visits[#visits + 1] = {
          visit, redis.call('HGET', key('visits', run_id), visit) or '',
          score(timers, timer('visit', run_id, visit)),
          score(timers, timer('child', run_id, visit)),
          score(inbox, run_id .. ' ' .. visit),
          redis.call('HEXISTS', key('questions', run_id), visit), inspect_map(run_id, visit),
          redis.call('LLEN', key('turns', run_id .. ' ' .. visit)),
        }
      end
    end
  end
  add(sorted(redis.call('HKEYS', key('visits', run_id))))
  add(sorted(redis.call('HKEYS', key('questions', run_id))))
  add(rest)
  return visits
end

-- The children, all of them or those that a visit waits for: run id, status, parent, due.
local function inspect_children(run_id, visits, whole)
  local ids = {}
  if whole then
    ids = redis.call('LRANGE', key('children', run_id), 0, -1)
  else
    for _, fields in ipairs(visits) do
      local v = parse_visit(fields[2])
      if v.status == 'child' then
        ids[#ids + 1] = v.payload
      end
    end
  end
  local children = {}
  for i, child in ipairs(ids) do
    local status, of, created, allowed =
      unpack(redis.call('HMGET', key('run', child), 'status', 'parent', 'created', 'allowed_ms'))
    children[i] = {child, status or '', of or '',
      allowed and string.format('%.0f', created + allowed) or ''}
  end
  return children
end

-- Of the parent: its status, the visit, whether it lists us.
local function inspect_parent(run_id, whole)
  local parent = redis.call('HGET', key('run', run_id), 'parent')
  if not parent then return {} end
  local parent_run, parent_visit = string.match(parent, '^(%S+) (%S+)$')
  if not parent_run then return {'', '', 0} end
  return {
    redis.call('HGET', key('run', parent_run), 'status') or '',
    redis.call('HGET', key('visits', parent_run), parent_visit) or '',
    (not whole or redis.call('LPOS', key('children', parent_run), run_id)) and 1 or 0,
  }
end

-- `whole`: look also at what only a check wants to know: all children, and the parent's list.
local function inspect(run_id, rest, whole)
  local digest = redis.call('HGET', key('run', run_id), 'digest')
  local visits = inspect_visits(run_id, rest)
  local keys = {}
  for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children',
    'visits', 'staged', 'pending', 'questions'}) do
    keys[#keys + 1] = kind
    keys[#keys + 1] = redis.call('PTTL', key(kind, run_id))
  end
  return {sorted_hash(key('run', run_id)), visits,
    sorted(redis.call('HKEYS', key('staged', run_id))),
    redis.call('LRANGE', key('pending', run_id), 0, -1),
    score(partition .. ':runs', run_id), score(timers, timer('deadline', run_id)),
    digest and score(timers, timer('expiry', run_id, digest)) or '',
    inspect_children(run_id, visits, whole), inspect_parent(run_id, whole), keys,
    redis.call('LLEN', key('history', run_id))}
end

-- Tells two readings apart, but for how long keys are kept.
local function digest_of(reading)
  local compared = {}
  for i, part in ipairs(reading) do
    compared[i] = i == 10 and '' or part
  end
  return redis.sha1hex(cjson.encode(compared))
end
