-- Record that all runs of a batch have ended, for hooks that want it, once.
-- KEYS partition
-- ARGV batch agent ended url
-- partition: that of the batch's name. ended: when the last run did, ms; later after retries
-- url: that of the batch's own; '' for none
-- USES store hooks
local hooks, told = redis.call('GET', partition .. ':hooks'), key('batchtold', batch)
if not hooks or redis.call('GET', told) == ended then return {'OK', {}} end
write('SET', told, ended, 'PX', 2 * retention_ms)
hooks = cjson.decode(hooks)
local event_id, subject = event_id_of(table.concat({'batch', batch, ended}, ' ')), {batch = batch}
record_deliveries(hooks, 'batch.finished', event_id, subject,
  {agent = agent, batch = batch, labels = {}})
record_own(hooks, 'batch.finished', event_id, subject, url)
return {'OK', {}}
