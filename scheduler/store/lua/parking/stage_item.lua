-- Stage the result of one map invocation; announce the next one, or resume the map.
-- KEYS partition
-- ARGV run_id visit token result halt elapsed_ms event usage spent
-- halt '1': this failure stops the map: no further invocation starts, waiting ones are withdrawn;
--      '2': the result is void because of such a failure; else '0'
-- event: a non-empty JSON object, to which `done` and `total` are added in front; or ''
-- spent: the invocation's whole usage; usage: the part that the run has not counted yet
-- USES store usage listed indexes dispatch waiting waits kept finish resume_run
-- ERR  run_closed stale_visit
local run = key('run', run_id)
local status, agent, digest = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end

local map_visit, index = map_of(visit)
local map = key('map', run_id .. ' ' .. map_visit)
local branch, total, following, inflight, halted, longest, done, total_ms, sparse = unpack(
  redis.call('HMGET', map, 'branch', 'total', 'next', 'inflight', 'halted', 'max_ms', 'done',
    'total_ms', 'sparse'))
if halt == '0' then
  forget_visit(run_id, visit, v)
else
  interrupt_visit(run_id, visit, v, halt == '1' and 'failed' or 'broken')
end
write_last('HDEL', map, 'item:' .. index)
local news = {'result:' .. index, result, 'ms:' .. index, elapsed_ms}
if spent ~= '' then
  news[5], news[6] = 'usage:' .. index, spent
end
add('HSET', map, news)
local sums_before = done
  and {'HSET', map, 'done', done, 'total_ms', total_ms, 'max_ms', longest}
  or {'HDEL', map, 'done', 'total_ms', 'max_ms'}
done = (tonumber(done) or 0) + 1
write_undone_by(sums_before, 'HSET', map, 'done', done,
  'total_ms', (tonumber(total_ms) or 0) + elapsed_ms,
  'max_ms', math.max(tonumber(longest) or 0, tonumber(elapsed_ms)))
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
  local invocation = invocation_of(map_visit, following)
  write_undone_by({'HSET', map, 'next', before}, 'HSET', map, 'next', following + 1)
  if sparse then
    invoke_again(run_id, invocation, agent .. '/' .. branch, digest)
  else
    make_ready(run_id, invocation, new_visit(), agent .. '/' .. branch, digest)
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
return reply()
