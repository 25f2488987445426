-- Let up to `limit` calls that wait for a name try again now, first come first.
-- KEYS partition
-- ARGV name limit
-- USES limits
-- OK   calls
local woken = {}
for _, kind in ipairs({'waiting', 'queue'}) do
  local list = id(kind, name)
  local left = tonumber(limit) - #woken
  for _, call in ipairs(redis.call('ZRANGEBYSCORE', list, '(' .. now_ms, '+inf', 'LIMIT', 0, left)) do
    write('ZADD', list, now_ms, call)
    write('HSET', id('call', call), 'at', now_ms)
    woken[#woken + 1] = call
  end
end
write('HDEL', id('state', name), 'requests.line', 'requests.late', 'tokens.line',
  'tokens.late', 'concurrency.line', 'concurrency.late', 'pause.line', 'pause.late', 'budget.line',
  'budget.late', 'held.line', 'held.late')
return {'OK', {}, woken}
