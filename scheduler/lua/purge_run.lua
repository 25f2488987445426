-- Forget a finished run whose retention is over.
-- KEYS partition
-- ARGV run_id digest
-- digest: of its bundle, read before; the record may have expired by itself
-- USES store
redis.call('ZREM', timers, timer('expiry', run_id))
redis.call('ZREM', partition .. ':runs', run_id)
if digest ~= '' and redis.call('HINCRBY', partition .. ':bundles', digest, -1) <= 0 then
  redis.call('HDEL', partition .. ':bundles', digest)
end
for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children'}) do
  redis.call('UNLINK', key(kind, run_id))
end
return {'OK', {}}
