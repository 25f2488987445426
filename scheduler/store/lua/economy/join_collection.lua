-- Have a visit's request join the collection of its provider, and park the visit on the reply.
-- KEYS partition
-- ARGV run_id visit token request_id call collection since allowed_ms bytes stored tokens digest body hold named shares event
-- since: ms since when the visit waits for this reply, '' for now; allowed_ms: from then until the
--      visit goes on without, -1: never
-- hold: JSON text of what the request holds of budgets, or ''
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

since = tonumber(since) or now_ms
local allowed = tonumber(allowed_ms)
if allowed >= 0 then allowed = math.max(0, since + allowed - now_ms) end
join_request(request_id, {'run', run_id, 'visit', visit, 'call', call, 'collection', collection,
  'since', string.format('%.0f', since), 'bytes', bytes, 'stored', stored, 'tokens', tokens,
  'digest', digest, 'body', body, 'hold', hold, 'named', named,
  'shares', shares}, digest, collection, stored)
narrate(run_id, event)
park(run_id, visit, v, 'all', {{
  call = call, kind = 'batch', allowed = allowed, detail = request_id}})
return reply()
