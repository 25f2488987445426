-- Commit a super-step, once: its writes and checkpoint, and the next frontier or the run's end.
-- With a frontier of one this is also the visit's commit.
-- KEYS partition
-- ARGV run_id step visit token status output failure cap window state_limit history event usage write_count rest
-- REST write_count key, JSON text pairs; then the nodes of the next frontier, in id order
-- USES store dispatch waiting finish
-- OK   status  the run's status after the step
-- ERR  run_closed       the run already reached a final status, or its time is over
-- ERR  stale_visit      another delivery owns the visit now; drop this result
-- ERR  stale_step       this step was advanced already
-- ERR  state_too_large  nothing was written
local run = key('run', run_id)
local before, current, deadline, agent, digest, bytes, width, machine, of_batch = unpack(
  redis.call('HMGET', run, 'status', 'step', 'deadline', 'agent', 'digest', 'bytes', 'width',
    'machine', 'of_batch'))
pin(run_id, machine, of_batch)
if not before or FINAL[before] then return {'run_closed'} end
if current ~= step then return {'stale_step'} end
local v = read_visit(run_id, visit)
if not holds(v, token) then return {'stale_visit'} end
if deadline and now_ms >= tonumber(deadline) then return {'run_closed'} end

if status == 'failed' then
  add_usage(run_id, usage)
  narrate(run_id, event)
  finish(run_id, 'failed', '', failure)
  return reply('failed')
end

local writes, nodes = {}, {}
for i, value in ipairs(rest) do
  if i <= 2 * tonumber(write_count) then
    writes[#writes + 1] = value
  else
    nodes[#nodes + 1] = value
  end
end
local state = key('state', run_id)
local before = tonumber(bytes)
bytes = before
for i = 1, #writes, 2 do
  local old = redis.call('HSTRLEN', state, writes[i])
  bytes = bytes + #writes[i + 1] - old + (old == 0 and #writes[i] or 0)
end
-- One that was too large already, under a limit of before, may still end.
if bytes > before and bytes > tonumber(state_limit) then return {'state_too_large'} end

in_pieces('HSET', state, writes)
forget_visit(run_id, visit, v)
if tonumber(width) > 1 then
  redis.call('DEL', key('staged', run_id), key('pending', run_id))
end
redis.call('RPUSH', key('history', run_id), string.format('{"at":%.0f,', now_ms) .. history)
add_usage(run_id, usage)
narrate(run_id, event)

if status == 'succeeded' then
  redis.call('HSET', run, 'bytes', bytes)
  finish(run_id, 'succeeded', output, '')
  return reply('succeeded')
end

local names = {}
for i, node in ipairs(nodes) do
  names[i] = 'n:' .. node
end
local counts = redis.call('HMGET', run, unpack(names))
local fields = {'step', step + 1, 'width', #nodes, 'busy', #nodes, 'bytes', bytes,
  'frontier', table.concat(nodes, ' ')}
for i, node in ipairs(nodes) do
  local visits = (tonumber(counts[i]) or 0) + 1
  if visits > tonumber(cap) then
    redis.call('HSET', run, 'bytes', bytes)
    finish(run_id, 'failed', '', cjson.encode({code = 'R004', node = node, message = string.format(
      "Node '%s' visited %d times (max_loop_iterations=%d)", node, visits, cap)}))
    return reply('failed')
  end
  fields[#fields + 1] = names[i]
  fields[#fields + 1] = visits
end
if #nodes > tonumber(window) then
  fields[#fields + 1] = 'free'
  fields[#fields + 1] = 0
elseif tonumber(width) > 1 then
  redis.call('HDEL', run, 'free')
end
in_pieces('HSET', run, fields)
admit(run_id, step + 1, nodes, tonumber(window), agent, digest)
return reply('running')
