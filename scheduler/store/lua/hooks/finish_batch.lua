-- Record that all runs of a batch have ended, for hooks that want it, once.
-- KEYS partition
-- ARGV batch agent ended
-- partition: that of the batch's name. ended: when the last run did, ms; later after retries
-- USES store hooks
local hooks, told = redis.call('GET', partition .. ':hooks'), key('batchtold', batch)
if not hooks or redis.call('GET', told) == ended then return {'OK', {}} end
write('SET', told, ended, 'PX', 2 * retention_ms)
local event_id = event_id_of(table.concat({'batch', batch, ended}, ' '))
record_deliveries(cjson.decode(hooks), 'batch.finished', event_id,
  {batch = batch}, {agent = agent, batch = batch, labels = {}})
return {'OK', {}}
