-- Visits that are ready become messages: pushed onto the broker's list where the broker is
-- this Redis (`envelope` is not empty), else named to the caller, who publishes them.
-- Either way the visit's timer makes the scheduler publish again what was lost on the way.

local woken = {}
local push = {}  -- messages by queue
local queues = {}  -- by run

-- `envelope` is the JSON text of a message with @NAME@ where a visit's own values go.
local function message(run_id, visit, label, digest)
  local id = string.sub(redis.sha1hex(run_id .. visit .. now_ms), 1, 32)
  local body = cjson.encode({{run_id, visit, digest}, {}, {}})  -- arguments, keywords, canvas
  local values = {
    ID = id, LABEL = string.sub(cjson.encode(label), 2, -2), AT = string.format('%.0f', now_ms),
    BODY = string.sub(cjson.encode(body), 2, -2),
    ARGS = string.sub(cjson.encode(run_id .. ' ' .. visit), 2, -2),
  }
  return (string.gsub(envelope, '@(%u+)@', values))
end

-- The queue of a run that is pinned to a machine is that machine's alone.
-- Whoever has read a run's `machine` anyway says so with `pin`.
local function pin(run_id, machine)
  queues[run_id] = machine and queue .. '@' .. machine or queue
end

local function queue_of(run_id)
  if not queues[run_id] then
    pin(run_id, redis.call('HGET', key('run', run_id), 'machine'))
  end
  return queues[run_id]
end

-- Name one ready visit to the broker; `flush` sends what was named.
local function announce(run_id, visit, label, digest)
  if envelope == '' then
    woken[#woken + 1] = {run_id, visit, label, digest, queue_of(run_id)}
  else
    local target = queue_of(run_id)
    push[target] = push[target] or {}
    table.insert(push[target], message(run_id, visit, label, digest))
  end
end

local function flush()
  for target, messages in pairs(push) do
    in_pieces('LPUSH', target, messages)
  end
  push = {}
end

local function reply(...)
  flush()
  return {'OK', woken, ...}
end

-- Make one existing visit ready and announce it.
local function make_ready(run_id, visit, v, label, digest)
  v.status, v.token, v.published = 'ready', '-', now_ms
  write_visit(run_id, visit, v)
  redis.call('ZADD', timers, now_ms + republish_ms, timer('visit', run_id, visit))
  announce(run_id, visit, label, digest)
end

-- The name a visit goes by in Flower: agent/node, for a map's invocation agent/branch.
local function label_of(run_id, visit, agent)
  local map_visit = string.match(visit, '^(%d+/[^/]+)/')
  local node = map_visit and redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'branch')
  return agent .. '/' .. (node or node_of(visit))
end

-- Admit a frontier: one visit per node, of which `window` are announced at once.
local function admit(run_id, step, nodes, window, agent, digest)
  local visits, ready, pending = {}, {}, {}
  for position, node in ipairs(nodes) do
    local visit = step .. '/' .. node
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
  in_pieces('HSET', key('visits', run_id), visits)
  in_pieces('ZADD', timers, ready)
  if #pending > 0 then
    in_pieces('RPUSH', key('pending', run_id), pending)
  end
end
