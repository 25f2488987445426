-- Record that a visit's isolated process died while its worker lived: the visit's own fault.
-- It is tried once more.
-- KEYS partition
-- ARGV run_id visit token how
-- how: the way it died, in words
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   done  published | given_up
-- ERR  run_closed stale_visit
local run = key('run', run_id)
local status, agent, digest = unpack(redis.call('HMGET', run, 'status', 'agent', 'digest'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end

if write('HINCRBY', run, 'died:' .. visit, 1) > 1 then
  finish(run_id, 'failed', '', cjson.encode({code = 'R022', node = node_of(visit),
    message = string.format("node '%s' killed its isolated process "
      .. "twice in a row: %s", executed_node(run_id, visit), how)}))
  return reply('given_up')
end
local label = label_of(run_id, visit, agent)
if v.status == 'leased' then
  make_ready(run_id, visit, v, label, digest)
else  -- staged: its result counts, only the advance is repeated
  v.token, v.published = '-', now_ms
  write_visit(run_id, visit, v)
  write('ZADD', timers, now_ms + republish_ms, timer('visit', run_id, visit))
  announce(run_id, visit, label, digest)
end
return reply('published')
