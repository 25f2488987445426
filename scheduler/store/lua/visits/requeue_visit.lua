-- Requeue an unfinished visit: another worker takes it at once, or the scheduler republishes it.
-- KEYS partition
-- ARGV run_id visit token delay_ms
-- USES store dispatch
-- ERR  run_closed stale_visit
local status, agent, digest =
  unpack(redis.call('HMGET', key('run', run_id), 'status', 'agent', 'digest'))
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then return refusal end
if v.status == 'staged' then return {'stale_visit'} end

v.tries = v.tries - 1  -- not the visit's fault
if tonumber(delay_ms) > 0 then
  -- 0: no message is on its way that could be waited for.
  v.status, v.token, v.published = 'ready', '-', 0
  write_visit(run_id, visit, v)
  write('ZADD', timers, now_ms + delay_ms, timer('visit', run_id, visit))
  return reply()
end
make_ready(run_id, visit, v, label_of(run_id, visit, agent), digest)
return reply()
