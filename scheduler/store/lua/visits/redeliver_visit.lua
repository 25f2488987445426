-- Handle a due visit timer: publish the visit again, or give up after too many deliveries.
-- KEYS partition
-- ARGV run_id visit max_deliveries
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   done  published | gone | queued | given_up
local member = timer('visit', run_id, visit)
local due = tonumber(redis.call('ZSCORE', timers, member))
local v = read_visit(run_id, visit)
local status, agent, digest =
  unpack(redis.call('HMGET', key('run', run_id), 'status', 'agent', 'digest'))
if not v or is_over(status) then
  write('ZREM', timers, member)
  return reply('gone')
end
if not due or due > now_ms then return reply('gone') end

local lost_worker = v.status == 'leased' or v.status == 'staged'
if lost_worker and v.tries >= tonumber(max_deliveries) then
  finish(run_id, 'failed', '', cjson.encode({code = 'R022', node = node_of(visit),
    message = string.format("node '%s' lost its worker %d times (max_deliveries); it is not "
      .. "proved that the node caused it: check why workers exit",
      executed_node(run_id, visit), v.tries)}))
  return reply('given_up')
end
if lost_worker then
  -- A token begins with the id of its worker.
  narrate(run_id, cjson.encode({kind = 'lost', node = executed_node(run_id, visit),
    worker = string.match(v.token, '^[^.]*')}))
end
local label = label_of(run_id, visit, agent)
local pause = republish_ms
if v.status == 'ready' then
  if envelope == '' and v.published > 0 then
    -- That queue's length is unknown: allow the message twice as long each time.
    pause = math.max(pause, math.min(2 * (due - v.published), 12 * republish_ms))
  -- Its message may still be waiting its turn: another one would only lengthen the queue.
  elseif envelope ~= '' and is_queued(run_id, visit, label, digest, v.published) then
    -- Check less often the longer it has waited: queues may be very long.
    pause = math.max(pause, math.min(now_ms - v.published, 12 * republish_ms))
    write('ZADD', timers, now_ms + pause, member)
    return reply('queued')
  end
elseif v.status == 'staged' then
  v.published = now_ms
  write_visit(run_id, visit, v)
  write('ZADD', timers, now_ms + republish_ms, member)
  announce(run_id, visit, label, digest)
  return reply('published')
elseif v.status ~= 'leased' then
  write('ZREM', timers, member)
  return reply('gone')
end
make_ready(run_id, visit, v, label, digest)
write('ZADD', timers, now_ms + pause, member)
return reply('published')
