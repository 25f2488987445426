-- Make a stranded run continue, or end it, if it is still as it was found.
-- KEYS partition
-- ARGV run_id digest failure rest
-- digest: of the reading that showed it (inspect_run with `whole` 0)
-- failure: JSON text of the error that ends the run; '' unless the repair is `fail`
-- REST repairs, as decided by scheduler/runs/consistency/rules.py; each that writes is counted
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish inspect
-- OK   repaired  how many of them have written; 0 if it has changed meanwhile
if digest_of(inspect(run_id, {}, false)) ~= digest then return reply(0) end
local run, visits = key('run', run_id), key('visits', run_id)

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
      local at = redis.call('HGET', map, 'at:' .. index)
      local invocation = invocation_of(visit, index, at)
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

local function open_visits()
  local open, found = redis.call('HGETALL', visits), {}
  for i = 1, #open, 2 do
    found[open[i]] = parse_visit(open[i + 1])
  end
  return found
end

-- Call `act` with each open row that a visit waits for.
local function for_each_wait(act)
  for visit in pairs(open_visits()) do
    for call, row in pairs(read_rows(run_id, visit)) do
      if row.is_open then act(visit, call, row) end
    end
  end
end

local function set_timer(due, member)
  if not redis.call('ZSCORE', timers, member) then
    write('ZADD', timers, due, member)
  end
end

local REPAIRS = {
  set_timers = function()
    local status, deadline = unpack(redis.call('HMGET', run, 'status', 'deadline'))
    if FINAL[status] then return set_timer(now_ms + retention_ms, timer('expiry', run_id)) end
    local due = timer('deadline', run_id)
    if deadline and tonumber(redis.call('ZSCORE', timers, due) or '') ~= tonumber(deadline) then
      write('ZADD', timers, deadline, due)
    end
    for visit, v in pairs(open_visits()) do
      if v.status ~= 'waiting' and v.status ~= 'held' then
        set_timer(now_ms + republish_ms, timer('visit', run_id, visit))
      end
    end
    for_each_wait(function(visit, call, row)
      if row.allowed >= 0 then
        set_timer(row.since + row.allowed, wait_timer(run_id, visit, call))
      end
    end)
  end,
  list_questions = function()
    for_each_wait(function(visit, call, row)
      local question = run_id .. ' ' .. question_of(visit, call)
      if row.kind == 'question' and not redis.call('ZSCORE', inbox, question) then
        write('ZADD', inbox, row.since, question)
      end
    end)
  end,
  -- Children that have ended, or are gone, without a word.
  close_waits = function()
    for_each_wait(function(visit, call, row)
      local result = row.kind == 'child' and result_of(row.detail)
      if result then
        close_wait(run_id, visit, call, result)
      end
    end)
  end,
  cancel = function()
    cancel_child(run_id)
  end,
  fail = function()
    forget_unreadable()
    clear()
    finish(run_id, 'failed', '', failure)
  end,
}

local repaired = 0
for _, repair in ipairs(rest) do
  local before = #undo
  REPAIRS[repair]()
  if #undo > before then
    write('HINCRBY', partition .. ':repairs', repair, 1)
    repaired = repaired + 1
  end
end
return reply(repaired)
