-- Record what a model call has used or how it failed, and release what it held.
-- KEYS partition
-- ARGV call spec
-- spec: JSON, as scheduler/store/rate_limiter.py makes it; its `id` is unique to this release
-- USES limits
-- OK   verdict delay_ms name detail woken
--      verdict: done | wait, if the call failed and its max wait has not ended
--      woken: calls whose turn it is now, to be woken
local did = cjson.decode(spec)

-- ---- repeated because the answer was lost: return the same one
local answered = redis.call('GET', id('released', did.id))
if answered then return cjson.decode(answered) end

local function reply(...)
  local answer = {'OK', {}, ...}
  write_last('SET', id('released', did.id), cjson.encode(answer), 'PX', ANSWER_KEPT_MS)
  return answer
end

-- ---- what it used
for _, limit in ipairs(did.limits) do
  if limit.tokens then
    local state = id('state', limit.name)
    local change = charge(limit.tokens, did.used_tokens) - charge(limit.tokens, did.tokens)
    write('HINCRBYFLOAT', state, 'tokens.flow', change)
    count(state, 'tokens', did.used_tokens - did.tokens)
    keep(state, now_ms + DAY_MS)
  end
end
local hold = string.format('%s|%.0f|%.0f', call, did.cost, did.worst_tokens)
for _, name in ipairs(did.budgets) do
  release_hold(name, hold)
  spend(name, did.used_cost, did.used_tokens, did.kept_ms)
end

-- ---- calls that wait for what it had reserved, and for its slots
local woken = {}
for _, name in ipairs(did.budgets) do
  wake_for_budget(name, woken)
end
for _, limit in ipairs(did.limits) do
  if limit.concurrency then
    write('ZREM', id('held', limit.name), call)
    note_time(limit, did.took_ms)
    wake_for_slots(limit, call, woken)
  end
end

-- ---- how it failed
local failure = did.failure
if not failure then
  for _, name in ipairs(did.names) do
    local pause = read_pause(name)
    if pause and pause.kind ~= 'throttled' then
      write('HDEL', partition .. ':pauses', name)
      write('HDEL', id('state', name), 'pause.late', 'pause.line')
    end
  end
  remove(id('call', call))
  return reply('done', 0, '', '', woken)
end

local name, asked_ms = failure.name, failure.retry_after_ms or 0
local pause = read_pause(name)
if failure.kind == 'throttled' then
  cut(name, asked_ms)
end
if not pause or now_ms >= pause.until_ms or now_ms + asked_ms > pause.until_ms then
  -- Calls made together fail together: the pause only grows when a later call fails.
  local again = pause and now_ms >= pause.until_ms and now_ms < pause.until_ms + KEPT_MS
  local failures = pause and (again and pause.failures + 1 or pause.failures) or 0
  local grown_ms = math.min(failure.longest_ms, failure.shortest_ms * 2 ^ failures)
  pause = {
    kind = failure.kind, reason = failure.reason, failures = failures,
    since_ms = again and pause.since_ms or now_ms,
    until_ms = now_ms + (asked_ms > 0 and asked_ms or grown_ms),
  }
  write_pause(name, pause)
end
local mine = read_call(call)
mine.since = mine.since or now_ms
if now_ms >= mine.since + did.max_wait_ms then
  remove(id('call', call))
  return reply('done', 0, name, '', woken)
end
local at = after_pause(mine, name, pause.until_ms, did.max_wait_ms)
book(call, mine, 'waiting', name, at)
return reply('wait', math.ceil(at - now_ms), name, pause.reason, woken)
