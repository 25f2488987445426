-- Stage the result of one map invocation; announce the next one, or resume the map.
-- KEYS partition
-- ARGV run_id visit token result halt kept_as elapsed_ms event usage spent way queues rest
-- halt '1': this failure stops the map: no further invocation starts, waiting ones are withdrawn;
--      '2': the result is void because of such a failure; else '0'
-- kept_as: what a retry does with a visit that stops the map, see lib/kept.lua
-- event: a non-empty JSON object, to which `done` and `total` are added in front; or ''
-- elapsed_ms, spent: of all nodes of the item; usage: what the run has not counted yet
-- way: JSON text of where the item has been; '' if it was at one node only
-- queues: of a thread that could run another visit at once, '' if it could not
-- REST keys that earlier nodes of the item have written
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish resume_run
-- OK   message  the next one of these queues, which that thread takes instead of asking for it
-- ERR  run_closed stale_visit
local run = key('run', run_id)
local status, agent, digest = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end

local map_visit, index = map_of(visit)
local map = key('map', run_id .. ' ' .. map_visit)
local branch, total, following, inflight, halted, done, sparse = unpack(redis.call('HMGET', map,
  'branch', 'total', 'next', 'inflight', 'halted', 'done', 'sparse'))
if halt == '0' then
  forget_visit(run_id, visit, v)
else
  interrupt_visit(run_id, visit, v, halt == '1' and kept_as or 'broken')
end
local news, gone = {'result:' .. index, result, 'ms:' .. index, elapsed_ms}, {'item:' .. index}
if spent ~= '' then
  news[5], news[6] = 'usage:' .. index, spent
end
if halt == '1' then
  news[#news + 1], news[#news + 2] = 'halts:' .. index, '1'
end
-- Where a retry is to go on, what the item has written stays.
if halt == '0' and way ~= '' then
  write('HSET', map, 'way:' .. index, way)
  gone[2] = 'at:' .. index
  for _, name in ipairs(rest) do
    gone[#gone + 1] = 'own:' .. index .. ':' .. name
  end
end
if gone[1000] then
  in_pieces(write, 'HDEL', map, gone)
else
  write_last('HDEL', map, unpack(gone))
end
add('HSET', map, news)
local done_before = done and {'HSET', map, 'done', done} or {'HDEL', map, 'done'}
done = (tonumber(done) or 0) + 1
write_undone_by(done_before, 'HSET', map, 'done', done)
add_usage(run_id, usage)
if event ~= '' then
  narrate(run_id, string.format('{"done":%d,"total":%d,', done, total) .. string.sub(event, 2))
end

-- Withdraw the waiting invocations: return how many there were, and how many of them the run counts
-- as busy.
local function withdraw()
  local visits = key('visits', run_id)
  local open, gone, busy = redis.call('HGETALL', visits), 0, 0
  for i = 1, #open, 2 do
    local other = parse_visit(open[i + 1])
    local of, item = map_of(open[i])
    if of == map_visit and other.status == 'waiting' then
      gone = gone + 1
      busy = busy + (is_busy(other) and 1 or 0)
      report_interrupted(run_id, open[i], other)
      interrupt_visit(run_id, open[i], other, 'broken')
      write('HDEL', map, 'item:' .. item)
    end
  end
  return gone, busy
end

if halt == '1' and not halted then
  halted = '1'
  local gone, busy = withdraw()
  write('HSET', map, 'halted', '1', 'inflight', inflight - gone)
  change(run_id, 'busy', 0 - busy)
  inflight = inflight - gone
end
-- Skip items that have a result from another try.
local before = following
while sparse and not halted and tonumber(following) < tonumber(total)
  and redis.call('HEXISTS', map, 'result:' .. following) == 1 do
  following = following + 1
end
if not halted and tonumber(following) < tonumber(total) then
  write_undone_by({'HSET', map, 'next', before}, 'HSET', map, 'next', following + 1)
  if sparse then
    local at = redis.call('HGET', map, 'at:' .. following)
    local invocation = invocation_of(map_visit, following, at)
    invoke_again(run_id, invocation, label_of(run_id, invocation, agent), digest)
  else
    make_ready(run_id, invocation_of(map_visit, following), new_visit(), agent .. '/' .. branch,
      digest)
  end
elseif tonumber(inflight) > 1 then
  write('HSET', map, 'inflight', inflight - 1)
  change(run_id, 'busy', -1)
  settle(run_id)
else
  -- The last invocation: the map's own visit collects the results.
  write('HSET', map, 'inflight', 0)
  close_wait(run_id, map_visit, 'map', '')
  change(run_id, 'busy', -1)
end
return reply((take_message(queues)))
