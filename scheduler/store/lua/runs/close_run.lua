-- End a run from outside: cancelled by a person, or timed out.
-- KEYS partition
-- ARGV run_id status failure
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- ERR  run_closed  it has ended already
-- ERR  not_due     timed_out was requested, but the deadline is not reached
local before, deadline = unpack(redis.call('HMGET', key('run', run_id), 'status', 'deadline'))
if is_over(before) then
  write('ZREM', timers, timer('deadline', run_id))
  return {'run_closed'}
end
if status == 'timed_out' and not (deadline and now_ms >= tonumber(deadline)) then
  return {'not_due'}
end
finish(run_id, status, '', failure)
return reply()
