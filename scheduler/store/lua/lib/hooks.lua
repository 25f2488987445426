-- Records events that hooks are to be told of, by the transition that causes them.
--
-- A delivery is a field of the hash `deliveries`, `<hook> <event id>`, and a timer; deliverers of a
-- scheduler remove both once it has arrived. Its value is JSON text: `type` and `at` of the event,
-- and what it is about: a `run`, with the visit and call of its `question`, a `schedule`, a
-- `batch` or a `budget`; and a `url` of the run's own.
-- LAZY

-- Of one event, the first by name; that one's delivery says how many `others` are not told.
local MOST_TOLD = 8
-- After an end of a run, other runs of its batch may end as well before a scheduler looks.
local BATCH_ENDS_MS = 1000

-- The timer of a batch of which a scheduler is to look whether all runs have ended.
local function batch_timer(batch)
  return string.format('batch %02x %s', string.match(partition, 'p(%d+)}?$'), batch)
end

local function record_delivery(hook, event, event_id, subject)
  local field, digits = hook .. ' ' .. event_id, string.match(partition, 'p(%d+)}?$')
  subject.type, subject.at = event, subject.at or now_ms
  local deliveries = partition .. ':deliveries'
  write_undone_by({'HDEL', deliveries, field}, 'HSET', deliveries, field, cjson.encode(subject))
  write('ZADD', timers, now_ms, string.format('hook %02x %s', digits, field))
end

-- Whether a hook wants an event of something with these `facts`: its agent, batch and labels.
local function wants(hook, event, facts)
  if not hook.events[event] or hook.agent and hook.agent ~= facts.agent
    or hook.batch and hook.batch ~= facts.batch then
    return false
  end
  for label, value in pairs(hook.labels or {}) do
    if facts.labels[label] ~= value then return false end
  end
  return true
end

-- `hooks`: sorted by name.
local function record_deliveries(hooks, event, event_id, subject, facts)
  local told = {}
  for _, hook in ipairs(hooks) do
    if wants(hook, event, facts) then told[#told + 1] = hook.name end
  end
  for i = 1, math.min(#told, MOST_TOLD) do
    subject.others = i == 1 and #told > MOST_TOLD and #told - MOST_TOLD or nil
    record_delivery(told[i], event, event_id, subject)
  end
end

-- The same for the same event, whoever records it again.
local function event_id_of(seed)
  return 'evt_' .. string.sub(redis.sha1hex(seed), 1, 32)
end

local function has_default(hooks)
  for _, hook in ipairs(hooks) do
    if hook.name == 'default' then return true end
  end
end

-- What filters look at is of the root. Only questions of child runs are told of.
local function facts_of(run_id)
  local names = {'agent', 'labels', 'batch', 'webhook', 'root'}
  local facts = {}
  for i, value in ipairs(redis.call('HMGET', key('run', run_id), unpack(names))) do
    facts[names[i]] = value or nil
  end
  if facts.root then
    return facts_of(facts.root), true
  end
  facts.labels = labels_in(facts.labels)
  return facts, false
end

-- `url`: what a submission named for its own run or batch, nil or '' if it named none. The secret of
-- the hook `default` signs what is sent there.
local function record_own(hooks, event, event_id, subject, url)
  if (url or '') == '' or not has_default(hooks) then return end
  subject.url, subject.others = url, nil
  record_delivery('default', event, event_id_of(event_id .. ' own'), subject)
end

local function is_end_awaited(hooks, facts)
  if facts.webhook and has_default(hooks) then return true end
  local of_batch = {agent = facts.agent, batch = facts.batch, labels = {}}
  for _, hook in ipairs(hooks) do
    if wants(hook, 'batch.finished', of_batch) then return true end
  end
end

-- A batch may have finished when none of its runs is open any more but one, which ends.
local function note_end_of_batch(hooks, facts)
  if not is_end_awaited(hooks, facts) then return end
  local tally = redis.call('HMGET', key('batchtally', facts.batch), 'open', 'waiting')
  if (tally[1] or 0) + (tally[2] or 0) <= 1 then
    write('ZADD', timers, now_ms + BATCH_ENDS_MS, batch_timer(facts.batch))
  end
end

-- `hooks`: the text of the key `hooks`. `question`: its visit, and its call if there are several.
function tell_hooks(hooks, event, run_id, question)
  local facts, is_child = facts_of(run_id)
  if is_child and not question then return end
  hooks = cjson.decode(hooks)
  local seed = table.concat({run_id, event, string.format('%.0f', now_ms), question or ''}, ' ')
  local event_id, subject = event_id_of(seed), {run = run_id, question = question}
  record_deliveries(hooks, event, event_id, subject, facts)
  record_own(hooks, event, event_id, subject, facts.webhook)
  if facts.batch and FINAL[string.match(event, '^run%.(.+)$')] then
    note_end_of_batch(hooks, facts)
  end
end
