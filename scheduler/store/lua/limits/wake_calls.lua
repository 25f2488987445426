-- Let up to `limit` calls that wait for a name try again now, first come first.
-- KEYS partition
-- ARGV name limit
-- USES limits
-- OK   calls
local woken = {}
for _, kind in ipairs({'waiting', 'queue'}) do
  wake(id(kind, name), tonumber(limit) - #woken, woken)
end
write('HDEL', id('state', name), 'requests.line', 'requests.late', 'tokens.line',
  'tokens.late', 'concurrency.line', 'concurrency.late', 'pause.line', 'pause.late', 'budget.line',
  'budget.late', 'held.line', 'held.late')
return {'OK', {}, woken}
