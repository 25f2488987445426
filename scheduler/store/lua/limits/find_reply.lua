-- Return the kept reply to a request; without one, let a call make it, or wait for an equal one.
-- Only one of equal calls is made at a time. Others wait for it, until its lease ends or they have
-- waited long enough; then they are made too.
-- KEYS partition
-- ARGV digest call lease_ms
-- USES store
-- OK   verdict reply wait_ms
--      verdict: cached | shared, if the call has waited for the reply | make | wait
-- Longest wait of one call for another.
local MOST_MS = 60000

local made_by, sharing = partition .. ':made:' .. digest, partition .. ':sharing:' .. digest
local kept = redis.call('GET', group_tag .. 'sleipnir:cache:' .. digest)
local since = tonumber(redis.call('ZSCORE', sharing, call) or '')
if kept then
  if since then write('ZREM', sharing, call) end
  return {'OK', {}, since and 'shared' or 'cached', kept, 0}
end

local other = redis.call('GET', made_by)
if other and other ~= call then
  local left = math.min((since or now_ms) + MOST_MS - now_ms, redis.call('PTTL', made_by))
  if left > 0 then
    write('ZADD', sharing, since or now_ms, call)
    write('PEXPIRE', sharing, 2 * MOST_MS)
    return {'OK', {}, 'wait', '', left}
  end
else
  write('SET', made_by, call, 'PX', lease_ms)
end
if since then write('ZREM', sharing, call) end
return {'OK', {}, 'make', '', 0}
