-- Settle what the calls of an allotment have used, and allot it the next ones: calls that a worker
-- process may admit by itself within a second.
-- KEYS partition
-- ARGV allotment spec
-- spec: JSON, as scheduler/store/rate_limiter.py makes it; its `id` is unique to this settlement
-- USES limits
-- OK   calls tokens worst_tokens cost budgets woken
--      the first four: what is allotted; all 0 if too little is free, or if anything is paused or
--      waited for
--      budgets: names of those that it reserves a part of
local did = cjson.decode(spec)
local asked, kept = did.asked, did.kept
-- An allotment is at most this part of what is free: there are others.
local PART = 1 / 20
-- Fewer calls are not worth it.
local LEAST = 2
-- Its calls are made within this time. Their places in a rate's line come after it, so that each is
-- made before its place and within SLACK_MS of it, as other calls are: no minute gets more for it.
local LASTS_MS = 1000

-- ---- repeated because the answer was lost: return the same one
local answered = redis.call('GET', id('released', did.id))
if answered then return cjson.decode(answered) end

-- ---- what its calls have used
for _, limit in ipairs(did.limits) do
  local state = id('state', limit.name)
  if limit.requests and did.begun.calls > 0 then
    count(state, 'requests', did.begun.calls)
  end
  if limit.tokens and did.begun.calls + did.ended.calls > 0 then
    local change = did.used_tokens - did.ended.tokens
    write('HINCRBYFLOAT', state, 'tokens.flow', change * charge(limit.tokens, 1))
    count(state, 'tokens', did.begun.tokens + change)
  end
  if limit.concurrency then
    if did.ended.calls > 0 then note_time(limit, did.took_ms) end
    release_slots(limit.name, string.format('%s|%.0f', allotment, did.held.calls))
  end
end
local hold = string.format('%s|%.0f|%.0f', allotment, did.held.cost, did.held.worst_tokens)
for _, name in ipairs(did.held_budgets) do
  release_hold(name, hold)
  spend(name, did.used_cost, did.used_tokens, did.kept_ms)
end

-- ---- the part that it gets of what it asks for
local part, charges = asked.calls > 0 and 1 or 0, {}

local function within(free, wanted)
  if wanted > 0 then part = math.max(0, math.min(part, free * PART / wanted)) end
end

local function look_for_waiting(kind, name)
  if redis.call('ZCOUNT', id(kind, name), now_ms - ABSENT_MS, '+inf') > 0 then part = 0 end
end

local function look_at_name(name)
  look_for_waiting('waiting', name)
  look_for_waiting('queue', name)
  local pause = read_pause(name)
  if redis.call('HEXISTS', partition .. ':settings', name .. '.paused') == 1
    or pause and (now_ms < pause.until_ms or pause.kind ~= 'throttled') then
    part = 0
  end
end

local function look_at_limit(limit)
  local state, lasting = id('state', limit.name), share(limit.name)
  for kind, wanted in pairs({requests = asked.calls, tokens = asked.tokens}) do
    if limit[kind] then
      local first = math.max(number(state, kind .. '.flow'), now_ms + LASTS_MS)
      local apart = charge(math.max(1, limit[kind] * lasting), 1)
      within((now_ms + SLACK_MS - first) / apart, wanted)
      charges[#charges + 1] = {state = state, flow = kind .. '.flow', first = first,
        ms = apart * wanted}
    end
  end
  if limit.concurrency then
    within(free_places(limit, '') - kept.calls, asked.calls)
  end
end

local function look_at_budget(budget)
  local name = budget_id(budget)
  release_lost(name)
  look_for_waiting('waiting', budget.id)
  local has = read_budget(name)
  local more, usd = 1 + has.granted, usd_limit(budget, has)
  if budget.id == 'day' and not has.begun then part = 0 end
  if budget.on_excess ~= 'stop' then
    if usd then within(usd * more - has.cost - has.held_cost - kept.cost, asked.cost) end
    if budget.tokens then
      local left = budget.tokens * more - has.tokens - has.held_tokens
      within(left - kept.worst_tokens, asked.worst_tokens)
    end
  end
  return name
end

local budgets = {}
if part > 0 then
  for _, name in ipairs(did.names) do look_at_name(name) end
  for _, limit in ipairs(did.limits) do look_at_limit(limit) end
  for i, budget in ipairs(did.budgets) do
    budgets[i] = look_at_budget(budget)
    -- Calls of the day before keep their reservation of its budget.
    if kept.calls > 0 and did.held_budgets[i] ~= budgets[i] then part = 0 end
  end
end
if part * asked.calls < LEAST then part = 0 end
local function allotted(unit)
  return math.floor(part * asked[unit])
end
if part == 0 then budgets = did.held_budgets end

-- ---- hold what it keeps and gets
for _, c in ipairs(charges) do
  if part > 0 then
    write('HSET', c.state, c.flow, c.first + part * c.ms)
  end
end
local expires, slots = now_ms + did.lease_ms, kept.calls + allotted('calls')
for _, limit in ipairs(did.limits) do
  if limit.concurrency and slots > 0 then
    hold_slots(limit.name, string.format('%s|%.0f', allotment, slots), expires)
  end
  keep(id('state', limit.name), now_ms + DAY_MS)
end
if slots > 0 then
  hold = string.format('%s|%.0f|%.0f', allotment, kept.cost + allotted('cost'),
    kept.worst_tokens + allotted('worst_tokens'))
  for _, name in ipairs(budgets) do
    hold_budget(name, hold, expires, did.kept_ms)
  end
end

-- ---- calls that wait for what has become free
local woken = {}
if did.ended.calls > 0 or slots < did.held.calls then
  for _, name in ipairs(did.held_budgets) do
    wake_for_budget(name, woken)
  end
  for _, limit in ipairs(did.limits) do
    if limit.concurrency then
      wake_for_slots(limit, '', woken)
    end
  end
end
local answer = {'OK', {}, allotted('calls'), allotted('tokens'), allotted('worst_tokens'),
  allotted('cost'), budgets, woken}
write_last('SET', id('released', did.id), cjson.encode(answer), 'PX', ANSWER_KEPT_MS)
return answer
