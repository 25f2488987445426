-- Give back a visit unfinished, as a stopping worker does: another takes it at once.
-- KEYS partition
-- ARGV run_id visit token
-- USES store dispatch
-- ERR  run_closed stale_visit
local status, agent, digest =
  unpack(redis.call('HMGET', key('run', run_id), 'status', 'agent', 'digest'))
if not status or FINAL[status] then return {'run_closed'} end
local v = read_visit(run_id, visit)
if not holds(v, token) or v.status == 'staged' then return {'stale_visit'} end

v.tries = v.tries - 1  -- the visit did nothing wrong
make_ready(run_id, visit, v, label_of(run_id, visit, agent), digest)
return reply()
