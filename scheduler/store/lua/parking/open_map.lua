-- Fan a map out: keep its items, announce the first window of invocations, park the map.
-- KEYS partition
-- ARGV run_id visit token branch window rest
-- REST the items, each as JSON text; at least one
-- USES store listed indexes dispatch waiting waits finish
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local run = key('run', run_id)
local status, agent, digest = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest'))
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local fields = {}
for i, item in ipairs(rest) do
  fields[#fields + 1] = 'item:' .. (i - 1)
  fields[#fields + 1] = item
end
local map = key('map', run_id .. ' ' .. visit)
local first = math.min(tonumber(window), #rest)
write_undone_by({'DEL', map},
  'HSET', map, 'branch', branch, 'total', #rest, 'next', first, 'inflight', first)
add('HSET', map, fields)

local visits, ready = {}, {}
for index = 0, first - 1 do
  local invocation = invocation_of(visit, index)
  visits[#visits + 1] = invocation
  visits[#visits + 1] = pack_visit(new_visit())
  ready[#ready + 1] = now_ms + republish_ms
  ready[#ready + 1] = timer('visit', run_id, invocation)
  announce(run_id, invocation, agent .. '/' .. branch, digest)
end
add('HSET', key('visits', run_id), visits)
add('ZADD', timers, ready)
change(run_id, 'busy', first)
park(run_id, visit, v, 'all', {{call = 'map', kind = 'map'}})
return reply()
