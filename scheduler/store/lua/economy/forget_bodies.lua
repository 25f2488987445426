-- Remove the bodies of requests that their provider has.
-- KEYS partition
-- ARGV group rest
-- REST ids
-- USES store
for _, id in ipairs(rest) do
  local request = key('request', id)
  if redis.call('HGET', request, 'group') == group then
    write('HDEL', request, 'body')
  end
end
return {'OK', {}}
