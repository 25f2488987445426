-- Reads everything stored about a run in its partition.

-- Redis lists a hash in no fixed order, and in another one while it resizes the table.
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

-- The state of a map, '' if there is none. It lists items that were handed out and have no result,
-- if their invocation, or its item, is missing: index, has its item.
local function inspect_map(run_id, visit)
  local map = key('map', run_id .. ' ' .. visit)
  if redis.call('EXISTS', map) == 0 then return '' end
  local inflight, following, halted =
    unpack(redis.call('HMGET', map, 'inflight', 'next', 'halted'))
  local fields = {}
  for _, field in ipairs(redis.call('HKEYS', map)) do
    fields[field] = true
  end
  local missing = {}
  for index = 0, (tonumber(following) or 0) - 1 do
    if not fields['result:' .. index] then
      local at = fields['at:' .. index] and redis.call('HGET', map, 'at:' .. index)
      local open = redis.call('HEXISTS', key('visits', run_id), invocation_of(visit, index, at))
      local item = fields['item:' .. index] and 1 or 0
      if open == 0 or item == 0 then
        missing[#missing + 1] = {index, item}
      end
    end
  end
  return {inflight or '0', halted or '', missing}
end

-- A visit's wait rows, and what other indexes have for its waits: call, row, when its timer is due,
-- asked at, whether there is a question, since when it is open to its root's model.
local function inspect_waits(run_id, visit, calls)
  local waits = waits_of(run_id, visit)
  local named, rows = {}, {}
  for _, names in ipairs({redis.call('HKEYS', waits), calls or {}}) do
    for _, call in ipairs(names) do
      named[call] = true
    end
  end
  local all = {}
  for call in pairs(named) do
    all[#all + 1] = call
  end
  for i, call in ipairs(sorted(all)) do
    local question = question_of(visit, call)
    local row = redis.call('HGET', waits, call) or ''
    rows[i] = {call, row,
      score(timers, wait_timer(run_id, visit, call)), score(inbox, run_id .. ' ' .. question),
      redis.call('HEXISTS', key('questions', run_id), question),
      score(key('escalations', string.match(row, '^question open %d+ %d+ (.+)$') or ''),
        run_id .. ' ' .. question)}
  end
  return rows
end

-- Whether a visit is set aside: '' if not, else 'lasts' or 'expires' for what it left.
local function inspect_kept(run_id, visit)
  if redis.call('HEXISTS', key('kept', run_id), visit) == 0 then return '' end
  for _, kind in ipairs({'waits', 'turns', 'map'}) do
    if redis.call('PTTL', key(kind, run_id .. ' ' .. visit)) == -1 then return 'lasts' end
  end
  return 'expires'
end

local function inspect_visits(run_id, rest)
  local named, visits, calls = {}, {}, {}
  -- Split the call off each name that has one, `<visit> <call>`.
  local function note_calls(names, implied)
    for i, name in ipairs(names) do
      local visit, call = string.match(name, '^(%S+) ?(.*)$')
      call = call == '' and implied or call
      names[i], calls[visit] = visit, calls[visit] or {}
      table.insert(calls[visit], call ~= '' and call or nil)
    end
    return names
  end
  local asked = note_calls(sorted(redis.call('HKEYS', key('questions', run_id))), 'question')
  note_calls(rest)
  local function add(names)
    for _, visit in ipairs(names) do
      if not named[visit] then
        named[visit] = true
        visits[#visits + 1] = {
          visit, redis.call('HGET', key('visits', run_id), visit) or '',
          score(timers, timer('visit', run_id, visit)),
          inspect_waits(run_id, visit, calls[visit]),
          inspect_map(run_id, visit),
          redis.call('LLEN', key('turns', run_id .. ' ' .. visit)),
          inspect_kept(run_id, visit),
        }
      end
    end
  end
  add(sorted(redis.call('HKEYS', key('visits', run_id))))
  add(asked)
  add(rest)
  return visits
end

-- All children, or those that a visit waits for: run id, status, parent.
local function inspect_children(run_id, visits, whole)
  local ids = {}
  if whole then
    ids = redis.call('LRANGE', key('children', run_id), 0, -1)
  else
    for _, fields in ipairs(visits) do
      for _, wait in ipairs(fields[4]) do
        local row = wait[2] ~= '' and parse_row(wait[2])
        if row and row.is_open and row.kind == 'child' then
          ids[#ids + 1] = row.detail
        end
      end
    end
  end
  local children = {}
  for i, child in ipairs(ids) do
    local status, of = unpack(redis.call('HMGET', key('run', child), 'status', 'parent'))
    children[i] = {child, status or '', of or ''}
  end
  return children
end

-- The parent: its status, the waits of its visit, whether it lists this run, whether it has it as
-- spawned and alive.
local function inspect_parent(run_id, whole)
  local parent = redis.call('HGET', key('run', run_id), 'parent')
  if not parent then return {} end
  local parent_run, parent_visit = string.match(parent, '^(%S+) (%S+)$')
  if not parent_run then return {'', {}, 0, 0} end
  return {
    redis.call('HGET', key('run', parent_run), 'status') or '',
    inspect_waits(parent_run, parent_visit),
    (not whole or redis.call('LPOS', key('children', parent_run), run_id)) and 1 or 0,
    redis.call('HGET', key('spawned', parent_run), handle_of(run_id)) == run_id and 1 or 0,
  }
end

-- The indexes that contain a run, among those that any run can be in, those that its record says,
-- and those `named`: name, score pairs; `ids:<digits>` has no scores.
local function inspect_indexes(run_id, named)
  local names = {'ids:' .. string.sub(run_id, 1, 3), 'runs', 'childruns', 'open', 'waiting',
    'failed', 'cancelled', 'timed_out'}
  for _, others in ipairs({lasting_indexes(read_listed(run_id)), named}) do
    for _, name in ipairs(others) do
      names[#names + 1] = name
    end
  end
  local found = {}
  for _, name in ipairs(names) do
    local index, at = partition .. ':' .. name, nil
    if string.find(name, '^ids:') then
      at = redis.call('HEXISTS', index, run_id) == 1 and '0'
    else
      at = redis.call('ZSCORE', index, run_id)
    end
    if at then
      found[#found + 1] = name
      found[#found + 1] = at
    end
  end
  return found
end

-- For a root: questions open to its model that no run below it asks.
local function inspect_escalations(run_id)
  local unasked = {}
  for _, name in ipairs(redis.call('ZRANGE', key('escalations', run_id), 0, -1)) do
    local asker, question = string.match(name, '^(%S+) (.+)$')
    if redis.call('HEXISTS', key('questions', asker), question) == 0 then
      unasked[#unasked + 1] = name
    end
  end
  return unasked
end

-- `whole`: also read what only a full check needs: all children, and the parent's list.
local function inspect(run_id, rest, whole)
  local visits = inspect_visits(run_id, rest)
  local keys = {}
  for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children',
    'failures', 'messages', 'transcripts', 'failed_transcripts', 'superseded', 'spawned', 'kept',
    'visits', 'staged', 'mail', 'pending', 'questions', 'escalations'}) do
    keys[#keys + 1] = kind
    keys[#keys + 1] = redis.call('PTTL', key(kind, run_id))
  end
  return {sorted_hash(key('run', run_id)), visits,
    sorted(redis.call('HKEYS', key('staged', run_id))),
    redis.call('LRANGE', key('pending', run_id), 0, -1),
    score(timers, timer('deadline', run_id)), score(timers, timer('expiry', run_id)),
    inspect_children(run_id, visits, whole), inspect_parent(run_id, whole), keys,
    redis.call('LLEN', key('history', run_id)), sorted(redis.call('HVALS', key('spawned', run_id)))}
end

-- A digest that tells two readings apart, ignoring the expiry of keys.
local function digest_of(reading)
  local compared = {}
  for i, part in ipairs(reading) do
    compared[i] = i == 9 and '' or part
  end
  return redis.sha1hex(cjson.encode(compared))
end
