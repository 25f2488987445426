-- Time out one of a visit's waits, if it is due: the visit resumes without it.
-- KEYS partition
-- ARGV run_id visit call
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   kind  of the wait that has timed out; '' if there is none
local member = wait_timer(run_id, visit, call)
local due = tonumber(redis.call('ZSCORE', timers, member))
local v = read_visit(run_id, visit)
local row = v and read_row(run_id, visit, v, call)
if not row or not row.is_open then
  write('ZREM', timers, member)
  return reply('')
end
if not due or due > now_ms then return reply('') end

local child = row.kind == 'child' and row.detail
close_row(run_id, visit, v, call, row, child and child_result(child, 'expired', '', '') or '')
if child then
  cancel_child(child)
end
return reply(row.kind)
