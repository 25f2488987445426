-- Pin a run to another machine, or to none; its ready visits go to that machine's queue.
-- KEYS partition
-- ARGV run_id machine event
-- machine: '' for any
-- Messages that another broker has cannot be taken back: of two messages, the second is stale.
-- USES store dispatch
-- ERR  run_gone  there is no such run
local run, visits = key('run', run_id), key('visits', run_id)
local status, agent, digest, archived = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest',
  'archived'))
if not status then return {'run_gone'} end

local function withdraw(visit, label, published)
  if envelope == '' then return end
  local base, lane = base_of(run_id, label), lane_of(run_id, visit)
  local text = message(run_id, visit, label, digest, published, base)
  if lane == 3 and redis.call('ZSCORE', base .. ':turns', text) then
    return write('ZREM', base .. ':turns', text)
  end
  local target = list_of(base, lane)
  if redis.call('LPOS', target, text) then
    write_undone_by({'RPUSH', target, text}, 'LREM', target, -1, text)
  end
end

local ready, packed = {}, redis.call('HGETALL', visits)
for i = 1, #packed, 2 do
  local v = parse_visit(packed[i + 1])
  if v.status == 'ready' and not FINAL[status] then
    withdraw(packed[i], label_of(run_id, packed[i], agent), v.published)
    ready[#ready + 1] = {packed[i], v}
  end
end

if machine == '' then
  write('HDEL', run, 'machine')
else
  write('HSET', run, 'machine', machine)
end
places[run_id] = nil
for _, each in ipairs(ready) do
  make_ready(run_id, each[1], each[2], label_of(run_id, each[1], agent), digest)
end
if not archived then  -- its narration is not here
  narrate(run_id, event)
end
return reply()
