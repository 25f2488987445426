-- Forget a finished run whose retention is over, once: its timer is what is taken.
-- KEYS partition
-- ARGV run_id digest
-- digest: of its bundle; not read from the record, which may have expired by itself
-- USES store
if write('ZREM', timers, timer('expiry', run_id, digest)) == 0 then return {'OK', {}} end
write('ZREM', partition .. ':runs', run_id)
if write('HINCRBY', partition .. ':bundles', digest, -1) <= 0 then
  write('HDEL', partition .. ':bundles', digest)
end
for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children', 'failures'}) do
  remove(key(kind, run_id))
end
return {'OK', {}}
