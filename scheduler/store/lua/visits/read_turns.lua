-- Return all entries of a visit's conversation.
-- KEYS partition
-- ARGV run_id visit
-- USES store
-- OK   turns
return {'OK', {}, redis.call('LRANGE', key('turns', run_id .. ' ' .. visit), 0, -1)}
