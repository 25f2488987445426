-- Make a stranded run continue, or end it, if it is still as it was found.
-- KEYS partition
-- ARGV run_id digest failure rest
-- digest: of the reading that showed it (inspect_run with `whole` 0); failure: JSON text of the
-- error that ends the run, '' if it can continue
-- REST verb, visit, argument of each repair, as planned by scheduler/runs/stranded.py
-- USES store listed indexes dispatch waiting waits kept finish inspect
-- OK   repaired  1, or 0 if it has changed meanwhile
if digest_of(inspect(run_id, {}, false)) ~= digest then return reply(0) end
local run, visits = key('run', run_id), key('visits', run_id)
local status, agent, bundle = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest'))

-- What an unreadable record does not say is searched for.
local function forget_unreadable()
  local open = redis.call('HGETALL', visits)
  for i = 1, #open, 2 do
    if not parse_visit(open[i + 1]).status then
      write('HDEL', visits, open[i])
      drop_visit(run_id, open[i], parse_visit(open[i + 1]))
      write('ZREM', inbox, run_id .. ' ' .. open[i])
      remove(key('turns', run_id .. ' ' .. open[i]))
    end
  end
end

local function withdraw(question)
  write('HDEL', key('questions', run_id), question)
  write('ZREM', inbox, run_id .. ' ' .. question)
end

-- Everything of the current step's visits, whether or not anything says that they are open.
local function forget_step()
  local step, frontier = unpack(redis.call('HMGET', run, 'step', 'frontier'))
  for node in string.gmatch(frontier or '', '%S+') do
    local visit = visit_of(step or '', node)
    local map = key('map', run_id .. ' ' .. visit)
    for index = 0, (tonumber(redis.call('HGET', map, 'total') or '') or 0) - 1 do
      local invocation = invocation_of(visit, index)
      drop_visit(run_id, invocation, {})
      remove(key('turns', run_id .. ' ' .. invocation))
    end
    drop_visit(run_id, visit, {})
    remove(key('turns', run_id .. ' ' .. visit))
    withdraw(visit)
  end
end

-- Remove all visits of a run.
local function clear()
  local open = redis.call('HGETALL', visits)
  for i = 1, #open, 2 do
    drop_visit(run_id, open[i], parse_visit(open[i + 1]))
  end
  for _, question in ipairs(redis.call('HKEYS', key('questions', run_id))) do
    withdraw(question)
  end
  forget_step()
  write('ZREM', timers, timer('deadline', run_id))
  for _, kind in ipairs({'visits', 'staged', 'pending', 'questions'}) do
    remove_now(key(kind, run_id))
  end
end

local function announce_again(visit, v)
  v.published = now_ms
  write_visit(run_id, visit, v)
  write('ZADD', timers, now_ms + republish_ms, timer('visit', run_id, visit))
  announce(run_id, visit, label_of(run_id, visit, agent), bundle)
end

local REPAIRS = {
  -- The last branch was staged, and nobody is left to advance the step.
  restage = function(visit)
    local v = new_visit()
    v.status = 'staged'
    announce_again(visit, v)
  end,
  watch = function(visit)
    write('ZADD', timers, now_ms + republish_ms, timer('visit', run_id, visit))
  end,
  watch_wait = function(visit, call, v)
    local row = read_row(run_id, visit, v, call)
    write('ZADD', timers, row.since + row.allowed, wait_timer(run_id, visit, call))
  end,
  watch_deadline = function()
    write('ZADD', timers, redis.call('HGET', run, 'deadline'), timer('deadline', run_id))
  end,
  -- Resume it without its question, so that it asks again.
  ask_again = function(visit, call, v)
    drop_row(run_id, visit, v, call)
    resume(run_id, visit, v)
  end,
  list = function(visit, call)
    write('ZADD', inbox, now_ms, run_id .. ' ' .. question_of(visit, call))
  end,
  withdraw = function(visit, call)
    withdraw(question_of(visit, call))
  end,
  requeue = function(visit, _, v)
    resume(run_id, visit, v)
  end,
  collect = function(visit, _, v)
    write('HSET', key('map', run_id .. ' ' .. visit), 'inflight', 0)
    close_wait(run_id, visit, 'map', '')
  end,
  invoke = function(visit)
    local map_visit, index = map_of(visit)
    local map = key('map', run_id .. ' ' .. map_visit)
    if tonumber(redis.call('HGET', map, 'next')) <= tonumber(index) then
      write('HSET', map, 'next', index + 1)
    end
    announce_again(visit, new_visit())
  end,
  tell_parent = function(visit, call, v)
    local row = read_row(run_id, visit, v, call)
    close_row(run_id, visit, v, call, row, result_of(row.detail))
  end,
  drop = function(visit, _, v)
    drop_visit(run_id, visit, v)
    write('HDEL', visits, visit)
  end,
  -- The first visit held back; when it completes, it lets in the next.
  release = function()
    local visit = pop(key('pending', run_id))
    local v = read_visit(run_id, visit) or new_visit()
    make_ready(run_id, visit, v, label_of(run_id, visit, agent), bundle)
  end,
  recount = function() end,  -- done after all repairs
  cancel = function()
    finish(run_id, 'cancelled', '', cjson.encode({
      code = 'cancelled', message = 'the parent run ended', node = cjson.null}), true)
  end,
  clear = clear,
  forget = function()
    -- Somebody wrote its status, so it ended without a transition: it is still counted as open.
    if redis.call('ZSCORE', partition .. ':open', run_id) then
      local r = read_listed(run_id)
      local ended_so = r.status
      r.status = redis.call('ZSCORE', partition .. ':waiting', run_id) and 'waiting' or 'running'
      relist_run(run_id, r, ended_so, r.ended)
    end
    write('ZADD', timers, now_ms + retention_ms, timer('expiry', run_id, bundle))
    for _, kind in ipairs({'state', 'history', 'events', 'logs', 'children', 'failures',
      'messages', 'transcripts', 'failed_transcripts', 'spawned'}) do
      write('PEXPIRE', key(kind, run_id), 2 * retention_ms)
    end
    let_kept_expire(run_id)
  end,
}

-- Recount what a visit waits for from its rows.
local function recount_rows(visit, v)
  local was_open, was_still, was_rows = v.open, v.still, v.rows
  v.rows, v.open, v.still = 0, 0, 0
  for _, row in pairs(read_rows(run_id, visit)) do
    v.rows = v.rows + 1
    v.open = v.open + (row.is_open and 1 or 0)
    v.still = v.still + (row.is_open and is_still(row) and 1 or 0)
  end
  if v.open ~= was_open or v.still ~= was_still or v.rows ~= was_rows then
    write_visit(run_id, visit, v)
  end
end

-- Recount what the repairs have changed: running invocations, and busy visits.
local function recount()
  local open, under_way, busy = redis.call('HGETALL', visits), {}, 0
  for i = 1, #open, 2 do
    local v = parse_visit(open[i + 1])
    local map_visit = map_of(open[i])
    if map_visit then
      under_way[map_visit] = (under_way[map_visit] or 0) + 1
    end
    recount_rows(open[i], v)
    busy = busy + (v.status ~= 'staged' and is_busy(v) and 1 or 0)
  end
  for _, visit in ipairs(redis.call('LRANGE', key('pending', run_id), 0, -1)) do
    busy = busy + (1 - redis.call('HEXISTS', visits, visit))
  end
  for map_visit, count in pairs(under_way) do
    write('HSET', key('map', run_id .. ' ' .. map_visit), 'inflight', count)
  end
  write('HSET', run, 'busy', busy)
  settle(run_id)
end

forget_unreadable()
if failure ~= '' then
  clear()
  finish(run_id, 'failed', '', failure)
  return reply(1)
end
for i = 1, #rest, 3 do
  local visit = rest[i + 1]
  local v = visit ~= '' and read_visit(run_id, visit)
  if v then
    recount_rows(visit, v)
  end
  REPAIRS[rest[i]](visit, rest[i + 2], v)
end
status = redis.call('HGET', run, 'status')
if not FINAL[status] and not redis.call('HGET', run, 'failing') then
  recount()
end
return reply(1)
