-- Continues ended runs where they stopped, with the visits that were set aside.
-- LAZY

local resume_run

-- The number of tries of a run so far.
local function tries_of(run_id)
  return tonumber(redis.call('HGET', key('run', run_id), 'try') or 1)
end

-- Whether a child can continue: enough is left of it, and it was spawned or waited for by any visit
-- of its parent.
local function can_resume(run_id, parent)
  local run = key('run', run_id)
  local status, capped, of = unpack(redis.call('HMGET', run, 'status', 'capped', 'parent'))
  return FINAL[status] and status ~= 'succeeded' and not capped
    and (of == parent or string.match(of or '', '^%S+') == parent)
    and redis.call('EXISTS', key('history', run_id), key('state', run_id)) == 2
end

-- Count a spawned child as alive again.
local function spawn_again(run_id, parent)
  local spawned = key('spawned', string.match(parent, '^%S+'))
  persist(spawned)
  write('HSET', spawned, handle_of(run_id), run_id)
end

-- Continue the spawned children that ended because their parent did, unless the parent begins at an
-- earlier step or with new children.
local function resume_spawned(run_id, change, changes)
  local spawned = key('spawned', run_id)
  persist(spawned)
  local found = redis.call('HGETALL', spawned)
  for i = 1, #found, 2 do
    local handle, child = found[i], found[i + 1]
    if is_over(redis.call('HGET', key('run', child), 'status')) then
      if not change.from and not changes.shallow and can_resume(child, run_id) then
        resume_run(child, changes[child] or {}, changes)
      else
        write('HDEL', spawned, handle)
      end
    end
  end
end

-- Mark the usage that a child has reported, so that it is not reported twice. `told` is a row's
-- result.
local function count_as_reported(child_id, told)
  local usage = string.match(told, '"usage":"(%d+ %d+ %S+ %d+)"')
  if not usage then return end
  local run = key('run', child_id)
  local before = redis.call('HGET', run, 'told') or '0 0 0 0'
  write('HSET', run, 'told', add_usages(before, usage))
end

-- The new text of a row when its visit continues; nil if it is of no use.
local function restore_wait(run_id, visit, row, how, changes)
  if row.kind == 'question' and not row.is_open then
    return how ~= 'misanswered' and row.text or nil
  end
  if row.kind ~= 'child' then return end
  local child = row.is_open and row.detail or string.match(row.result, '"run_id":"(%x+)"')
  if not child then return end
  local status, allowed = unpack(redis.call('HMGET', key('run', child), 'status', 'allowed_ms'))
  if status == 'succeeded' then return not row.is_open and row.text or nil end
  if changes.shallow or not can_resume(child, run_id .. ' ' .. visit) then return end
  if not row.is_open and how ~= 'broken' then
    count_as_reported(child, row.result)
  end
  resume_run(child, changes[child] or {}, changes)
  allowed = tonumber(row.is_open and row.allowed or allowed or -1)
  return open_text({kind = 'child', since = now_ms, allowed = allowed, detail = child}), allowed
end

-- A visit that waited for a place for one more child does so again while it waits for children; if
-- it got one, or waits for nothing else, it continues at once.
local function place_again(v, row)
  v.mode = 'first'
  if not row.is_open or v.open == 0 then
    v.fresh = v.fresh + 1
    return
  end
  v.open, v.still = v.open + 1, v.still + 1
  return row.text
end

-- Rewrite a row as `text`; without one it is dropped.
local function rewrite_row(waits, v, call, row, text)
  v.rows = v.rows + (text and 1 or 0)
  if text == row.text then return end
  local undone_by = {'HSET', waits, call, row.text}
  if text then
    write_undone_by(undone_by, 'HSET', waits, call, text)
  else
    write_undone_by(undone_by, 'HDEL', waits, call)
  end
end

-- Restore a visit that was set aside; of it, only its rows are written here.
-- `changes`: `shallow`, and changes to children by run id.
local function restore_visit(run_id, visit, how, packed, changes)
  local v, waits = parse_visit(packed), waits_of(run_id, visit)
  for _, name in ipairs(keys_of_visit(run_id, visit)) do
    persist(name)
  end
  v.packed, v.token, v.tries, v.published = nil, '-', 0, now_ms
  v.began, v.wait, v.parked, v.rests = 0, 0, 0, 0
  v.fresh, v.mode = 0, 'all'
  if how ~= 'broken' then
    v.attempt = 1
  end
  local rows = v.rows > 0 and read_rows(run_id, visit) or {}
  v.rows, v.open, v.still = 0, 0, 0
  local place
  for call, row in pairs(rows) do
    if row.kind == 'place' then
      place = row
    else
      local text, allowed = restore_wait(run_id, visit, row, how, changes)
      rewrite_row(waits, v, call, row, text)
      if allowed then  -- it waits for its child again
        v.open = v.open + 1
        if allowed >= 0 then
          add('ZADD', timers, {now_ms + allowed, wait_timer(run_id, visit, call)})
        end
      end
    end
  end
  if place then
    rewrite_row(waits, v, 'place', place, place_again(v, place))
  end
  return v
end

-- Continue a visit: it waits for its child again, or is announced.
local function continue_visit(run_id, visit, v, label, digest)
  if not may_go_on(v) then
    v.status = 'waiting'
    write_visit(run_id, visit, v)
  else
    make_ready(run_id, visit, v, label, digest)
  end
end

-- Continue a map invocation that an earlier try began, if anything is left of it.
local function invoke_again(run_id, invocation, label, digest)
  local kept = key('kept', run_id)
  local text = redis.call('HGET', kept, invocation)
  local v = new_visit()
  if text then
    local how, packed = string.match(text, '^(%l+) (.*)$')
    local shallow = redis.call('HGET', key('run', run_id), 'shallow')
    v = restore_visit(run_id, invocation, how, packed, {shallow = shallow})
    write('HDEL', kept, invocation)
  end
  continue_visit(run_id, invocation, v, label, digest)
end

-- What an earlier try of a map left: usable results, and how far other items came; nil if its items
-- differ. And the visits set aside in the run. The map is then opened again.
local function resume_map(run_id, visit, sum)
  local map = key('map', run_id .. ' ' .. visit)
  local found, fields = redis.call('HGETALL', map), {}
  for i = 1, #found, 2 do
    fields[found[i]] = found[i + 1]
  end
  local earlier = fields.sum == sum and {} or nil
  for field, value in pairs(earlier and fields or {}) do
    local kind, index = string.match(field, '^(%l+):(%d+)')
    if kind == 'at' or kind == 'way' or kind == 'own' then
      earlier[field] = value
    end
    -- A failure that stopped the map must not stop it again.
    local counts = kind == 'result' and not string.match(value, '^{"discarded"')
      and not fields['halts:' .. index]
    if counts then
      earlier[field] = value
      for _, kind in ipairs({'usage:', 'ms:'}) do
        earlier[kind .. index] = fields[kind .. index]
      end
    end
  end
  remove_now(map)
  write('HDEL', key('kept', run_id), visit)
  return earlier, all_kept(run_id)
end

-- Renew the record of a run that continues; `from` says where, `change` what differs.
local function renew_record(run_id, r, from, change, count)
  local run = key('run', run_id)
  local gone = {'HDEL', run, 'started', 'ended', 'output', 'value', 'error', 'deadline', 'failing', 'free',
    'capped', 'shallow'}
  for _, field in ipairs(redis.call('HKEYS', run)) do
    if string.sub(field, 1, 5) == 'died:' then
      gone[#gone + 1] = field
    end
  end
  write(unpack(gone))
  if r.started and r.ended then
    write('HINCRBY', run, 'earlier_ms', tonumber(r.ended) - tonumber(r.started))
  end
  local news = {'status', 'queued', 'try', tries_of(run_id) + 1, 'step', from.step,
    'stepped', now_ms, 'width', #from.nodes, 'busy', count,
    'frontier', table.concat(from.nodes, ' ')}
  for _, pair in ipairs({{'digest', change.digest}, {'context', change.context},
    {'timeout_ms', change.timeout_ms}, {'shallow', change.shallow},
    {'queues', change.queues}}) do
    if pair[2] then
      news[#news + 1], news[#news + 2] = pair[1], pair[2]
    end
  end
  write('HSET', run, unpack(news))
  for _, field in ipairs({'timeout_ms', 'queues'}) do
    if change[field] == '' then
      write('HDEL', run, field)
    end
  end
  if change.digest and change.digest ~= r.digest then
    count_in(partition .. ':bundles', r.digest, -1)
    count_in(partition .. ':bundles', change.digest, 1)
  end
  write('ZREM', timers, timer('expiry', run_id))
  write('ZREM', archivable, run_id)
  relist_run(run_id, r, 'queued', false)
  for _, kind in ipairs({'state', 'history', 'events', 'logs', 'children', 'failures',
    'messages', 'transcripts', 'failed_transcripts', 'superseded'}) do
    persist(key(kind, run_id))
  end
end

-- The state of an uncompleted step: the nodes that are done, and the visits set aside.
local function partition_step(run_id, step, nodes)
  local how, packed = all_kept(run_id)
  local of_step, done = {}, {}
  persist(key('kept', run_id))
  persist(key('staged', run_id))
  persist(key('mail', run_id))
  for _, node in ipairs(nodes) do
    of_step[visit_of(step, node)] = true
  end
  for visit in pairs(how) do
    if not of_step[map_of(visit) or visit] then
      drop_kept(run_id, visit)
      how[visit] = nil
    elseif map_of(visit) then
      for _, name in ipairs(keys_of_visit(run_id, visit)) do
        persist(name)
      end
    end
  end
  for _, node in ipairs(redis.call('HKEYS', key('staged', run_id))) do
    local visit = visit_of(step, node)
    if of_step[visit] and not how[visit] then
      done[node] = true
    else
      write('HDEL', key('staged', run_id), node)
    end
  end
  return how, packed, done
end

-- Start the run, as begin_visit does at its first visit.
local function begin_at_once(run_id)
  local run = key('run', run_id)
  local timeout = redis.call('HGET', run, 'timeout_ms')
  write('HSET', run, 'status', 'running', 'started', now_ms)
  if timeout then
    local deadline = now_ms + tonumber(timeout)
    write('HSET', run, 'deadline', deadline)
    write('ZADD', timers, deadline, timer('deadline', run_id))
  end
end

-- Open the unfinished visits of a step, a window of them at once.
local function open_step(run_id, from, agent, digest, changes, how, packed, done)
  local places = from.window and #from.nodes > from.window and from.window
  local pending, opened, announced, kept = {}, 0, 0, key('kept', run_id)
  for _, node in ipairs(from.nodes) do
    local visit = visit_of(from.step, node)
    if not done[node] then
      opened = opened + 1
      local v = how[visit] and restore_visit(run_id, visit, how[visit], packed[visit], changes)
      if how[visit] and redis.call('EXISTS', key('map', run_id .. ' ' .. visit)) == 0 then
        write('HDEL', kept, visit)  -- a map needs its field until it is opened
      end
      if places == 0 and not (v and not may_go_on(v)) then
        if v then
          v.status = 'held'
          write_visit(run_id, visit, v)
        end
        pending[#pending + 1] = visit
      else
        local waits = v and not may_go_on(v)
        announced = announced + (waits and 0 or 1)
        continue_visit(run_id, visit, v or new_visit(), agent .. '/' .. node, digest)
        places = places and (waits and places or places - 1)
      end
    end
  end
  push('RPUSH', key('pending', run_id), pending)
  if places then
    write('HSET', key('run', run_id), 'free', places)
  end
  if opened > 0 and announced == 0 then  -- all wait for children, so no begin_visit starts the run
    begin_at_once(run_id)
  end
  if opened == 0 then  -- all are done: let one of them advance the step
    local visit, v = visit_of(from.step, from.nodes[1]), new_visit()
    v.status = 'staged'
    write_visit(run_id, visit, v)
    add('ZADD', timers, {now_ms + republish_ms, timer('visit', run_id, visit)})
    announce(run_id, visit, agent .. '/' .. from.nodes[1], digest)
  end
end

-- Where a run continues by default: at the step that it did not complete.
local function unfinished(run_id)
  local run = key('run', run_id)
  local step, frontier, capped, window = unpack(redis.call('HMGET', run, 'step', 'frontier',
    'capped', 'window'))
  local from = {step = tonumber(step), nodes = {}, window = tonumber(window or nil)}
  for node in string.gmatch(capped or frontier, '%S+') do
    from.nodes[#from.nodes + 1] = node
  end
  if capped then
    from.step = from.step + 1
    for _, node in ipairs(from.nodes) do
      write('HINCRBY', run, 'n:' .. node, 1)
    end
  end
  return from
end

-- `change`: changes to this run: digest, context, queues, timeout_ms, window, shallow, event, from;
-- `changes`: the same by run id for children that continue with it.
function resume_run(run_id, change, changes)
  local r = read_listed(run_id)
  local from = change.from or unfinished(run_id)
  from.window = change.window or from.window
  local how, packed, done = {}, {}, {}
  if not change.from then
    how, packed, done = partition_step(run_id, from.step, from.nodes)
  end
  local count = 0
  for _, node in ipairs(from.nodes) do
    count = count + (done[node] and 0 or 1)
  end
  renew_record(run_id, r, from, change, count)
  narrate(run_id, change.event or cjson.encode({
    kind = 'retried', step = from.step, nodes = from.nodes, number = tries_of(run_id)}))
  local digest = change.digest or r.digest
  if r.spawned then
    spawn_again(run_id, r.parent)
  end
  open_step(run_id, from, r.agent, digest, changes, how, packed, done)
  if r.spawns then
    resume_spawned(run_id, change, changes)
    free_place(run_id)  -- for children that did not continue
  end
end
