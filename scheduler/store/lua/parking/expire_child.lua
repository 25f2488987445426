-- An agent node's time is over: cancel its child and resume the node with that news.
-- KEYS partition
-- ARGV run_id visit
-- USES store dispatch waiting finish
write('ZREM', timers, timer('child', run_id, visit))
local v = read_visit(run_id, visit)
if v and v.status == 'child' then
  local child_id = v.payload
  local child_status = redis.call('HGET', key('run', child_id), 'status')
  cancel_child(child_id)
  if child_status == 'waiting' then
    change(run_id, 'busy', 1)
  end
  resume(run_id, visit, v, child_result(child_id, 'expired', '', ''))
  settle(run_id)
end
return reply()
