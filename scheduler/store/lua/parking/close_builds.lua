-- Resume visits that wait for a build whose claim was released.
-- KEYS partition
-- ARGV claim limit
-- limit: how many to resume at most
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   closed  how many were resumed
local waiting = redis.call('ZRANGEBYLEX', builds, '[' .. claim .. ' ', '(' .. claim .. '!',
  'LIMIT', 0, limit)
for _, member in ipairs(waiting) do
  local run_id, visit, call = string.match(member, '^%S+ (%S+) (%S+) (.*)$')
  if not close_wait(run_id, visit, call, '') then
    write('ZREM', builds, member)  -- nobody waits there any more
  end
end
return reply(#waiting)
