-- The results of a map whose invocations have all ended.
-- KEYS partition
-- ARGV run_id visit
-- USES store
-- OK   fields  the map's hash: total, result:<n>, item:<n> of what never ran, usage:<n>, ms:<n>, way:<n>
return {'OK', {}, redis.call('HGETALL', key('map', run_id .. ' ' .. visit))}
