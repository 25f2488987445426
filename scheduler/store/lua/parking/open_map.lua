-- Fan a map out: store its items, announce the first window of invocations, park the map.
-- Items that already have a result from an earlier try with the same items are not invoked again.
-- KEYS partition
-- ARGV run_id visit token branch chain window rest
-- chain: what must be the same in another try for its items to go on where they were
-- REST the items, each as JSON text; at least one
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish resume_run
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local run = key('run', run_id)
local status, agent, digest, has_kept = unpack(redis.call('HMGET', run, 'status', 'agent',
  'digest', 'kept'))
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local map = key('map', run_id .. ' ' .. visit)
-- Tells whether another try has the same items.
local sum = redis.sha1hex(branch .. chain .. '\n' .. table.concat(rest, '\n'))

local function take_up()
  local earlier, how, packed = resume_map(run_id, visit, sum)
  local invocations = {}
  for other in pairs(how) do
    local map_visit, index = map_of(other)
    if map_visit == visit then
      if earlier and not earlier['result:' .. index] then
        invocations[tonumber(index)] = true
      else
        drop_kept(run_id, other)
      end
    end
  end
  return earlier, invocations
end

local earlier, broken_off = nil, {}
if has_kept then
  earlier, broken_off = take_up()
end
local fields, todo, done = {}, {}, 0
for i, item in ipairs(rest) do
  if earlier and earlier['result:' .. (i - 1)] then
    done = done + 1
  else
    todo[#todo + 1] = i - 1
    fields[#fields + 1] = 'item:' .. (i - 1)
    fields[#fields + 1] = item
  end
end
local first = math.min(tonumber(window), #todo)
write_undone_by({'DEL', map}, 'HSET', map, 'branch', branch, 'total', #rest, 'sum', sum,
  'next', first > 0 and todo[first] + 1 or #rest, 'inflight', first)
add('HSET', map, fields)
if earlier then
  local results = {'sparse', '1', 'done', done}
  for field, value in pairs(earlier) do
    results[#results + 1], results[#results + 2] = field, value
  end
  add('HSET', map, results)
end

local visits, ready = {}, {}
for position = 1, first do
  local at = earlier and earlier['at:' .. todo[position]]
  local invocation = invocation_of(visit, todo[position], at)
  local label = agent .. '/' .. (at and string.match(at, '^[^/]+') or branch)
  if broken_off[todo[position]] then
    invoke_again(run_id, invocation, label, digest)
  else
    visits[#visits + 1] = invocation
    visits[#visits + 1] = pack_visit(new_visit())
    ready[#ready + 1] = now_ms + republish_ms
    ready[#ready + 1] = timer('visit', run_id, invocation)
    announce(run_id, invocation, label, digest)
  end
end
add('HSET', key('visits', run_id), visits)
add('ZADD', timers, ready)
change(run_id, 'busy', first)
park(run_id, visit, v, 'all', {{call = 'map', kind = 'map'}})
if first == 0 then  -- all items have results: only collect them
  close_wait(run_id, visit, 'map', '')
end
return reply()
