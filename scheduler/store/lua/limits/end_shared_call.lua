-- End a call that equal ones may wait for; its reply is kept for them and others.
-- KEYS partition
-- ARGV digest call reply keep_ms
-- reply: '' if there is none that could be kept
-- USES store
-- OK   waiting  the calls that wait for it, those that have waited longest first
local made_by = partition .. ':made:' .. digest
if reply ~= '' then
  write('SET', group_tag .. 'sleipnir:cache:' .. digest, reply, 'PX', keep_ms)
end
if redis.call('GET', made_by) == call then
  remove(made_by)
end
return {'OK', {}, redis.call('ZRANGE', partition .. ':sharing:' .. digest, 0, -1)}
