-- Turns ready visits into messages: pushed onto the broker's lists if the broker is this Redis
-- (`envelope` is not empty), else returned to the caller, who publishes them.
-- Either way the visit's timer makes the scheduler republish a lost message.
--
-- The queue is that of the node to be executed, by name, and of the machine if its run is pinned.
-- It has four lanes, kombu's lists by priority; workers read them in this order:
--   0  runs of no batch that have started
--   1  runs of no batch that have not, and map invocations: a wide map must not block other runs
--   2  runs of batches that have started
--   3  runs of batches that have not started: a single message if none is waiting, else a mark for
--      each message in the queue's `turns`

-- What the names of queues in this Redis begin with.
local tag = envelope ~= '' and group_tag or ''

local woken = {}
local messages_for = {}  -- by list
local arrivals = {}  -- batch runs that start by turns
local places = {}  -- by run: what determines its queues and the lane

-- `envelope` is the JSON text of a message with @NAME@ where a visit's own values go.
-- `published`: when it is or was pushed; the text is the same for the same instant.
local function message(run_id, visit, label, digest, published, base)
  local id = string.sub(redis.sha1hex(run_id .. visit .. published), 1, 32)
  local body = cjson.encode({{run_id, visit, digest}, {}, {}})  -- arguments, keywords, canvas
  local values = {
    ID = id, LABEL = string.sub(cjson.encode(label), 2, -2), AT = string.format('%.0f', published),
    BODY = string.sub(cjson.encode(body), 2, -2),
    ARGS = string.sub(cjson.encode(run_id .. ' ' .. visit), 2, -2),
    QUEUE = string.sub(cjson.encode(string.sub(base, #tag + 1)), 2, -2),
  }
  return (string.gsub(envelope, '@(%u+)@', values))
end

-- `queues`: of a run whose nodes are not all in the default queue, JSON of node → name, and of '' →
-- that of the others.
-- Callers that have already read these fields of a started run pass them to `pin`.
local function pin(run_id, machine, queues, of_batch, new, batch)
  places[run_id] = {
    machine = machine, queues = queues and cjson.decode(queues),
    of_batch = of_batch, new = new, batch = batch,
  }
end

local function place_of(run_id)
  if not places[run_id] then
    local machine, queues, of_batch, status, parent, batch = unpack(redis.call('HMGET',
      key('run', run_id), 'machine', 'queues', 'of_batch', 'status', 'parent', 'batch'))
    -- A child counts as started: its parent has.
    pin(run_id, machine, queues, of_batch, status == 'queued' and not parent, batch)
  end
  return places[run_id]
end

-- The queue of a visit. Its label ends with the node that it executes.
local function base_of(run_id, label)
  local place, base = place_of(run_id), queue
  if place.queues then
    local name = place.queues[string.match(label, '[^/]*$')] or place.queues['']
    base = name and name ~= default_queue and queue .. '.' .. name or queue
  end
  return tag .. (place.machine and base .. '@' .. place.machine or base)
end

local function lane_of(run_id, visit)
  local place = place_of(run_id)
  if place.of_batch then return place.new and 3 or 2 end
  return (place.new or map_of(visit)) and 1 or 0
end

local function list_of(base, lane)
  return lane == 0 and base or base .. lane_separator .. lane
end

-- Announce a ready visit; `flush` sends all announced ones.
-- `again`: it was published before and has waited for its turn.
local function announce(run_id, visit, label, digest, again)
  local base = base_of(run_id, label)
  if envelope == '' then
    woken[#woken + 1] = {run_id, visit, label, digest, base}
    return
  end
  local lane = lane_of(run_id, visit)
  local text = message(run_id, visit, label, digest, now_ms, base)
  if lane == 3 then
    arrivals[#arrivals + 1] = {
      base = base, batch = place_of(run_id).batch, text = text, again = again,
    }
    return
  end
  local target = list_of(base, lane)
  messages_for[target] = messages_for[target] or {}
  table.insert(messages_for[target], text)
end

-- Batches take turns: the n-th run of each starts before the next one of any.
-- A run that arrives later, or again after a pause, joins the turn that is next.
local function await_turn(base, batch, text, again)
  local turns, last = base .. ':turns', base .. ':last-turns'
  local following = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2]
  if not following and redis.call('LLEN', list_of(base, 3)) == 0 then
    remove_now(last)
    push('LPUSH', list_of(base, 3), {text})
    return
  end
  local turn = tonumber(following or 0)
  if not again then
    local before = redis.call('HGET', last, batch)
    turn = math.max(turn, (tonumber(before) or -1) + 1)
    write('HSET', last, batch, turn)
    if not before then
      write_undone_by(nil, 'PEXPIRE', last, retention_ms)
    end
  end
  write('ZADD', turns, turn, text)
  push('LPUSH', list_of(base, 3), {turn_mark})
end

-- Whether a message that may have been sent at `published` is still in its queue.
local function is_queued(run_id, visit, label, digest, published)
  local base, lane = base_of(run_id, label), lane_of(run_id, visit)
  if lane < 3 then
    local oldest = redis.call('LINDEX', list_of(base, lane), -1)
    return oldest
      and (tonumber(string.match(oldest, '"published_ms": (%d+)')) or 0) <= published
  end
  local turns, marks = base .. ':turns', list_of(base, 3)
  if redis.call('LLEN', marks) < redis.call('ZCARD', turns) then
    push('LPUSH', marks, {turn_mark})  -- a worker took the mark and died before taking a message
  end
  local text = message(run_id, visit, label, digest, published, base)
  return redis.call('LINDEX', marks, -1) == text or redis.call('ZSCORE', turns, text)
end

local function flush()
  for target, messages in pairs(messages_for) do
    push('LPUSH', target, messages)
  end
  for _, arrival in ipairs(arrivals) do
    await_turn(arrival.base, arrival.batch, arrival.text, arrival.again)
  end
  messages_for, arrivals = {}, {}
end

-- Take the next message of a worker's queues, for a thread that goes on with it instead of asking
-- for it; '' if there is none, or if it is the turn of a batch's run. Return also whether it is the
-- only one that was announced, which then was never in a queue.
local function take_message(queues)
  local lists, target, messages = {}, next(messages_for)
  local is_only = target and not messages[2] and not next(messages_for, target) and not arrivals[1]
  local is_its_own = false
  for lane = 0, 2 do
    for base in string.gmatch(queues, '%S+') do
      lists[#lists + 1] = list_of(tag .. base, lane)
      is_its_own = is_its_own or lists[#lists] == target
    end
  end
  if not lists[1] or envelope == '' then return '', false end
  if redis.call('EXISTS', unpack(lists)) == 0 then
    if is_only and is_its_own then
      messages_for = {}
      return messages[1], true
    end
    if not is_its_own then return '', false end
  end
  flush()
  for _, list in ipairs(lists) do
    local text = pop_last(list)
    if text then return text, false end
  end
  return '', false
end

-- Tell the caller what has come to an end besides its own visit, if that is exported as spans; the
-- callback of `Transitions` knows these by their first word, which is no run id.
local function report(kind, run_id, number, ...)
  if tells_ends == 1 then
    woken[#woken + 1] = {kind, run_id, tonumber(number or 1), now_ms, ...}
  end
end

-- Report a visit that ends without a commit of its worker, if it has begun.
local function report_interrupted(run_id, visit, v, number)
  if tells_ends == 1 and v.status and v.status ~= 'staged' and v.began > 0 then
    report('interrupted', run_id, number or redis.call('HGET', key('run', run_id), 'try') or nil,
      visit, v.attempt, v.began, v.wait, v.parked)
  end
end

local function reply(...)
  flush()
  return {'OK', woken, ...}
end

-- Make one existing visit ready, and announce it.
local function make_ready(run_id, visit, v, label, digest)
  local due, member = now_ms + republish_ms, timer('visit', run_id, visit)
  if v.packed then
    write('ZADD', timers, due, member)
  else
    add('ZADD', timers, {due, member})
  end
  v.status, v.token, v.published = 'ready', '-', now_ms
  write_visit(run_id, visit, v)
  announce(run_id, visit, label, digest, true)
end

-- The node that a visit executes.
local function executed_node(run_id, visit)
  local map_visit, _, node = map_of(visit)
  if not map_visit then return node_of(visit) end
  return node ~= '' and node
    or redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'branch') or node_of(visit)
end

-- The name of a visit in Flower: agent/node.
local function label_of(run_id, visit, agent)
  return agent .. '/' .. executed_node(run_id, visit)
end

-- Admit a frontier: one visit per node, of which `window` are announced at once.
local function admit(run_id, step, nodes, window, agent, digest)
  local visits, ready, pending = {}, {}, {}
  for position, node in ipairs(nodes) do
    local visit = visit_of(step, node)
    if position <= window then
      visits[#visits + 1] = visit
      visits[#visits + 1] = pack_visit(new_visit())
      ready[#ready + 1] = now_ms + republish_ms
      ready[#ready + 1] = timer('visit', run_id, visit)
      announce(run_id, visit, agent .. '/' .. node, digest)
    else
      pending[#pending + 1] = visit
    end
  end
  add('HSET', key('visits', run_id), visits)
  add('ZADD', timers, ready)
  if #pending > 0 then
    push('RPUSH', key('pending', run_id), pending)
  end
end
