-- Record an event that no other transition causes, for hooks or for one of them.
-- KEYS partition
-- ARGV hook event event_id subject facts
-- hook: the only one that gets it; '' for all that want it. subject: JSON text of what the event is
-- about. facts: JSON text of what filters of hooks look at
-- USES store hooks
local hooks = redis.call('GET', partition .. ':hooks')
if hook ~= '' then
  record_delivery(hook, event, event_id, cjson.decode(subject))
elseif hooks then
  record_deliveries(cjson.decode(hooks), event, event_id, cjson.decode(subject), cjson.decode(facts))
end
return {'OK', {}}
