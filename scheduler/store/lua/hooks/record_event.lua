-- Record an event that no other transition causes, for hooks or for one of them.
-- KEYS partition
-- ARGV hook event event_id subject facts url
-- hook: the only one that gets it; '' for all that want it. subject: JSON text of what the event is
-- about. facts: JSON text of what filters of hooks look at. url: of the run's or batch's own; '' for
-- none
-- USES store hooks
local hooks = redis.call('GET', partition .. ':hooks')
subject = cjson.decode(subject)
if hook ~= '' then
  record_delivery(hook, event, event_id, subject)
elseif hooks then
  hooks = cjson.decode(hooks)
  record_deliveries(hooks, event, event_id, subject, cjson.decode(facts))
  record_own(hooks, event, event_id, subject, url)
end
return {'OK', {}}
