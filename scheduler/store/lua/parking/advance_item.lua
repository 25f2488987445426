-- Commit one node's visit for an item of a map, and announce the visit of the next node.
-- KEYS partition
-- ARGV run_id visit token node number way event usage queues next_token lease_ms write_count rest
-- node, number: the item's n-th visit of that node comes next
-- way: JSON text of where the item has been, with the sizes of all that it has written as `wrote`
-- queues: of a thread that could run another visit at once, '' if it could not
-- next_token: of the lease under which it would, '' if it begins the visit itself
-- REST write_count key, JSON text pairs that the visit has written; then the keys that the next
--      visit reads, none for all of them
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish begin
-- OK   message begun  the next one of these queues, which that thread takes instead of asking for
--      it; and, if it has begun, the values of begin_visit
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status, agent, digest =
  unpack(redis.call('HMGET', key('run', run_id), 'status', 'agent', 'digest'))
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

local map_visit, index = map_of(visit)
local at = node .. '/' .. number
local fields = {'at:' .. index, at, 'way:' .. index, way}
local first_key = 2 * write_count + 1
for i = 1, first_key - 1, 2 do
  fields[#fields + 1] = 'own:' .. index .. ':' .. rest[i]
  fields[#fields + 1] = rest[i + 1]
end
in_pieces(write, 'HSET', key('map', run_id .. ' ' .. map_visit), fields)
forget_visit(run_id, visit, v)
add_usage(run_id, usage)
narrate(run_id, event)
local following = invocation_of(map_visit, index, at)
make_ready(run_id, following, new_visit(), agent .. '/' .. node, digest)
local message, is_own = take_message(queues)
if not is_own or next_token == '' then return reply(message, {}) end
local keys = {}
for i = first_key, #rest do
  keys[#keys + 1] = rest[i]
end
local _, begun = begin(run_id, following, next_token, lease_ms, digest, keys)
return reply(message, begun)
