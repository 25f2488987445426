-- The only code that opens and closes waits: rows are opened as a visit parks, closed by results,
-- and dropped with the visit. lib/waiting.lua describes rows.
-- LAZY

local finish

local function cancel_child(child_id)
  local status = redis.call('HGET', key('run', child_id), 'status')
  if not is_over(status) then
    finish(child_id, 'cancelled', '', cjson.encode({
      code = 'cancelled', message = 'the parent run ended', node = cjson.null}), true)
  end
end

-- Abandon a child that a visit waits for: it is cancelled, unless a model has spawned it.
local function abandon_child(child_id)
  if redis.call('HEXISTS', key('run', child_id), 'spawned') == 0 then
    cancel_child(child_id)
  end
end

-- Add costs of which part was for calls in providers' batches.
local function add_costs(one, other, sign)
  local a, a_economy = string.match(one, '^([^+]+)%+?(.*)$')
  local b, b_economy = string.match(other, '^([^+]+)%+?(.*)$')
  if a == '-' or b == '-' then return '-' end
  return string.format('%.10f+%.10f', math.max(0, a + sign * b), math.max(0,
    (tonumber(a_economy) or 0) + sign * (tonumber(b_economy) or 0)))
end

-- Add `sign` times a usage to another one, as texts. Unknown costs stay unknown.
local function add_usages(one, other, sign)
  local sums, summands = {}, {}
  for part in string.gmatch(other, '%S+') do
    summands[#summands + 1] = part
  end
  for part in string.gmatch(one, '%S+') do
    local i = #sums + 1
    local a, b = tonumber(part), tonumber(summands[i])
    if i == 3 and (string.find(part, '+', 1, true) or string.find(summands[i], '+', 1, true)) then
      sums[i] = add_costs(part, summands[i], sign or 1)
    else
      sums[i] = not (a and b) and '-'
        or string.format(i == 3 and '%.10f' or '%.0f', math.max(0, a + (sign or 1) * b))
    end
  end
  return table.concat(sums, ' ')
end

-- A run's usage as a text, without what its parent's nodes were told in earlier tries.
local function unreported_usage(run_id)
  local prompt, completion, cost, unpriced, cached, written, told, economy = unpack(redis.call(
    'HMGET', key('run', run_id), 'prompt_tokens', 'completion_tokens', 'cost', 'unpriced',
    'cached_tokens', 'cache_written_tokens', 'told', 'economy'))
  if economy then cost = cost .. '+' .. economy end
  local usage = table.concat({prompt or '0', completion or '0', unpriced and '-' or cost or '0',
    cached or '0', written or '0'}, ' ')
  return told and add_usages(usage, told, -1) or usage
end

-- The result of a child that its parent's visit gets when it ends.
local function child_result(child_id, status, output, failure, value)
  return cjson.encode({
    run_id = child_id, status = status, output = output, error = failure, value = value,
    usage = unreported_usage(child_id),
  })
end

-- The same for a child that has already ended; nil if it has not.
local function result_of(child_id)
  local status, output, failure, value = unpack(redis.call('HMGET', key('run', child_id),
    'status', 'output', 'error', 'value'))
  if not is_over(status) then return end
  if not status then
    status, failure = 'failed', cjson.encode({
      code = 'R023', message = 'nothing is left of that run', node = cjson.null})
  end
  return child_result(child_id, status, output or '', failure or '', value or nil)
end

-- The root whose model may answer the question of a child's model, '' if none may. Questions of
-- nodes and consent to guarded calls are only ever a person's.
local function supervisor_of(run_id, call)
  if call == 'question' or string.sub(call, 1, 6) == 'guard-' then return '' end
  local context = cjson.decode(redis.call('HGET', key('run', run_id), 'context') or '{}')
  return context.supervised and context.root or ''
end

-- Resume the visit of a root that waits for its model's children, so that the model is told.
local function interrupt(root)
  local open = redis.call('HGETALL', key('visits', root))
  for i = 1, #open, 2 do
    local visit, v = open[i], parse_visit(open[i + 1])
    if v.status == 'waiting' and collects(read_rows(root, visit)) then
      local was_busy = is_busy(v)
      v.fresh = v.fresh + 1
      resume(root, visit, v)
      count_visit(root, v, was_busy)
    end
  end
end

-- Post a question to the inbox, and to the model of the root that may answer it.
local function post_question(run_id, visit, call, text, root)
  local name = run_id .. ' ' .. question_of(visit, call)
  add('HSET', key('questions', run_id), {question_of(visit, call), text})
  add('ZADD', inbox, {now_ms, name})
  tell_others('ask', run_id, 'question.asked', question_of(visit, call))
  if root ~= '' then
    add('ZADD', key('escalations', root), {now_ms, name})
    interrupt(root)
  end
end

-- Visits that wait for a build, found by its claim.
local builds = partition .. ':builds'

local function build_wait(run_id, visit, call, claim)
  return claim .. ' ' .. run_id .. ' ' .. visit .. ' ' .. call
end

-- Remove an open row's timer, question and the like, but not its child: that may go on.
-- `is_answered`: somebody has answered the question.
local function release(run_id, visit, call, row, is_answered)
  if row.allowed >= 0 then
    write('ZREM', timers, wait_timer(run_id, visit, call))
  end
  if row.kind == 'build' then
    write('ZREM', builds, build_wait(run_id, visit, call, row.detail))
  elseif row.kind == 'batch' then
    drop_request(row.detail)
  elseif row.kind == 'question' then
    local question = question_of(visit, call)
    write('HDEL', key('questions', run_id), question)
    write('ZREM', inbox, run_id .. ' ' .. question)
    tell_others('answer', run_id, is_answered and 'question.answered', question)
    if row.detail ~= '' then
      write('ZREM', key('escalations', row.detail), run_id .. ' ' .. question)
    end
  end
end

-- Do so for all open rows of a visit, whose results no longer matter; the rows stay.
local function release_rows(run_id, visit)
  for call, row in pairs(read_rows(run_id, visit)) do
    if row.is_open then
      release(run_id, visit, call, row)
      if row.kind == 'child' then abandon_child(row.detail) end
    end
  end
end

-- Drop a row that the visit has used or abandoned; the caller writes the visit.
local function drop_row(run_id, visit, v, call)
  local waits = waits_of(run_id, visit)
  local text = v.rows > 0 and redis.call('HGET', waits, call)
  if not text then return end
  local row = parse_row(text)
  v.rows = v.rows - 1
  if row.is_open then
    v.open = v.open - 1
    v.still = v.still - (is_still(row) and 1 or 0)
    release(run_id, visit, call, row)
    if row.kind == 'child' then abandon_child(row.detail) end
  end
  write_undone_by({'HSET', waits, call, text}, 'HDEL', waits, call)
end

-- Whether one more child may be spawned, if at most `most` may be alive.
local function has_place(run_id, most)
  return redis.call('HLEN', key('spawned', run_id)) < tonumber(most)
end

-- The result of something a visit is to wait for, if it already has one; else nil.
local function done_already(run_id, kind, detail)
  if kind == 'child' then return result_of(detail) end
  if kind == 'build' and group_tag == '' then  -- else the claim is in another slot: see parking.py
    return redis.call('EXISTS', 'sleipnir:build-claim:' .. detail) == 0 and '' or nil
  end
  return kind == 'place' and has_place(run_id, detail) and '' or nil
end

-- Make a spawned child wake the visit that now waits for it.
local function adopt(run_id, visit, child_id)
  local child, of = key('run', child_id), run_id .. ' ' .. visit
  local spawned, parent = unpack(redis.call('HMGET', child, 'spawned', 'parent'))
  if spawned and parent ~= of then
    write_undone_by({'HSET', child, 'parent', parent}, 'HSET', child, 'parent', of)
  end
end

-- Open a row, replacing an earlier one of that call; the caller writes the visit. A `wait` has
-- call, kind, allowed and detail; the detail of a question is its text.
local function open_row(run_id, visit, v, wait)
  local call, kind, allowed, detail = wait.call, wait.kind, wait.allowed or -1, wait.detail or ''
  local row = kind == 'question' and read_row(run_id, visit, v, call)
  if row and row.is_open and row.kind == kind then return end  -- already asked
  drop_row(run_id, visit, v, call)
  v.rows = v.rows + 1
  local result = done_already(run_id, kind, detail)
  if result then
    v.fresh = v.fresh + 1
    add('HSET', waits_of(run_id, visit), {call, kind .. ' done ' .. result})
    return
  end
  if kind == 'child' then
    adopt(run_id, visit, detail)
  end
  v.open = v.open + 1
  v.still = v.still + (is_still(wait) and 1 or 0)
  if allowed >= 0 then
    add('ZADD', timers, {now_ms + allowed, wait_timer(run_id, visit, call)})
  end
  if kind == 'build' then
    add('ZADD', builds, {0, build_wait(run_id, visit, call, detail)})
  elseif kind == 'question' then
    local root = supervisor_of(run_id, call)
    post_question(run_id, visit, call, detail, root)
    detail = root
  end
  row = {kind = kind, since = now_ms, allowed = allowed, detail = detail}
  add('HSET', waits_of(run_id, visit), {call, open_text(row)})
end

-- Results that came in while the visit executed are `fresh`: it has not seen them yet.
local function may_go_on(v)
  return v.open == 0 or v.mode == 'first' and v.fresh > 0
end

-- Park a visit on `waits` and its earlier waits, until `all` or the `first` of them close. It is
-- ready at once if that has happened while it executed.
-- `used`: the calls whose rows it no longer needs.
local function park(run_id, visit, v, mode, waits, used)
  for _, call in ipairs(used or {}) do
    drop_row(run_id, visit, v, call)
  end
  local in_place = false
  for _, wait in ipairs(waits) do
    open_row(run_id, visit, v, wait)
    in_place = in_place or wait.kind == 'map'  -- its invocations have a window of their own
  end
  v.token, v.tries, v.mode = '-', 0, mode
  v.rests = in_place and 0 or now_ms
  local is_told = collects(waits) and redis.call('EXISTS', key('escalations', run_id)) == 1
  if is_told or may_go_on(v) then
    local agent, digest = unpack(redis.call('HMGET', key('run', run_id), 'agent', 'digest'))
    make_ready(run_id, visit, v, label_of(run_id, visit, agent), digest)
    return
  end
  v.status = 'waiting'
  write_visit(run_id, visit, v)
  stop_timer(timer('visit', run_id, visit))
  count_visit(run_id, v, true)
  if not in_place then
    release_place(run_id, visit)
  end
end

-- Time that a request is with a provider's batch does not count towards the timeout of its node.
local function exclude_wait(v, row)
  v.began = v.began + math.max(0, now_ms - row.since)
  if v.rests > 0 then v.rests = now_ms end
end

-- Close an open row with its result. The visit resumes if it waits for nothing else; one that is
-- executing finds the result when it parks next.
local function close_row(run_id, visit, v, call, row, result, how)
  local was_busy, waits = is_busy(v), waits_of(run_id, visit)
  if tells_ends == 1 and row.kind == 'question' then
    report('waited', run_id, redis.call('HGET', key('run', run_id), 'try') or nil, visit, v.attempt,
      call, row.since, how or '')
  end
  release(run_id, visit, call, row, (how or '') ~= '')
  if row.kind == 'batch' then exclude_wait(v, row) end
  v.open, v.fresh = v.open - 1, v.fresh + 1
  v.still = v.still - (is_still(row) and 1 or 0)
  write_undone_by({'HSET', waits, call, row.text},
    'HSET', waits, call, row.kind .. ' done ' .. result)
  if v.status == 'waiting' and may_go_on(v) then
    resume(run_id, visit, v, row.kind == 'map')
  else
    write_visit(run_id, visit, v)
  end
  count_visit(run_id, v, was_busy)
end

-- Close a wait by call id; return whether the visit waited for it.
-- `how`: the event that says who has answered.
local function close_wait(run_id, visit, call, result, how)
  local v = read_visit(run_id, visit)
  local row = v and read_row(run_id, visit, v, call)
  if not row or not row.is_open then return false end
  close_row(run_id, visit, v, call, row, result, how)
  return true
end

-- Resume a visit that waits for the place of a spawned child that has ended.
local function free_place(run_id)
  local open = redis.call('HGETALL', key('visits', run_id))
  for i = 1, #open, 2 do
    local visit, v = open[i], parse_visit(open[i + 1])
    local row = read_row(run_id, visit, v, 'place')
    if row and row.is_open and has_place(run_id, row.detail) then
      close_row(run_id, visit, v, 'place', row, '')
    end
  end
end

-- Remove everything that a completed or dropped visit waited for, and its map.
local function forget_waits(run_id, visit, v)
  if v.status and v.rows == 0 then return end
  if not v.status or v.open > 0 then
    release_rows(run_id, visit)
  end
  remove(waits_of(run_id, visit), key('map', run_id .. ' ' .. visit))
end
