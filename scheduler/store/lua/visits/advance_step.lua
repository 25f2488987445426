-- Commit a super-step, at most once: its writes, checkpoint, and next frontier or the run's end.
-- With a frontier of one this is also the visit's commit.
-- KEYS partition
-- ARGV run_id step visit token status output value failure kept_as cap window state_limit history event usage failures queues next_token lease_ms write_count key_count rest
-- failures: '' or JSON: for each of the record's failure counters, how many, and the texts of the
-- first ones
-- kept_as: what a retry does with a visit that failed, see lib/kept.lua
-- queues: of a thread that could run another visit at once, '' if it could not
-- next_token: of the lease under which it would, '' if it begins the visit itself
-- REST write_count key, JSON text pairs; key_count keys of the state that the next visit reads
--      besides, none for all of them; then the nodes of the next frontier, in id order
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish begin
-- OK   status long message begun  the run's status after the step; 1 if its history should be folded;
--      the next message of these queues, which that thread takes instead of asking for it; and, if it has
--      begun, the values of begin_visit
-- ERR  run_closed       the run has ended, or its deadline has passed
-- ERR  stale_visit      another delivery owns the visit now; drop this result
-- ERR  stale_step       this step was advanced already
-- ERR  state_too_large  nothing was written
local run = key('run', run_id)
local wanted = {'status', 'step', 'deadline', 'agent', 'digest', 'bytes', 'width', 'machine',
  'queues', 'busy', 'frontier', 'of_batch', 'history_bytes', 'history_fold_at', 'stepped', 'mail'}
local first_key, recorded = 2 * write_count + 1, #wanted
local first_node = first_key + key_count
for i = first_node, #rest do
  wanted[#wanted + 1] = 'n:' .. rest[i]
end
local found = read_fields(run, wanted)
local so_far, current, deadline, agent, digest, bytes, width, machine, queues_of, busy, frontier, of_batch,
  told, fold_at, stepped, mail = unpack(found, 1, recorded)
pin(run_id, machine, queues_of, of_batch)
if is_over(so_far, deadline) then return {'run_closed'} end
if current ~= step then return {'stale_step'} end
local refusal, v = check_holder(run_id, visit, token, so_far)
if refusal then return refusal end

if status == 'failed' then
  add_usage(run_id, usage)
  narrate(run_id, event)
  if v.status == 'leased' then
    interrupt_visit(run_id, visit, v, kept_as)
  end
  finish(run_id, 'failed', '', failure)
  return reply('failed', 0, take_message(queues), {})
end

local state = key('state', run_id)
local writes, bytes_before = {}, tonumber(bytes)
bytes = bytes_before
for i = 1, first_key - 1, 2 do
  local name, value = rest[i], rest[i + 1]
  local old = redis.call('HSTRLEN', state, name)
  bytes = bytes + #value - old + (old == 0 and #name or 0)
  writes[i], writes[i + 1] = name, value
end
-- A run that was too large before, under an earlier limit, may still end.
if bytes > bytes_before and bytes > tonumber(state_limit) then return {'state_too_large'} end

history = with_members(string.format('"at":%.0f,', now_ms), history)
local bytes_told, count = (told or 0) + #history, #rest - first_node + 1
local fields = {
  {'step', step, step + 1}, {'stepped', stepped, now_ms}, {'width', width, count},
  {'busy', busy, count}, {'bytes', bytes_before, bytes},
  {'frontier', frontier, table.concat(rest, ' ', first_node)}, {'history_bytes', told, bytes_told},
}
local nodes, capped = {}, nil
for i = first_node, #rest do
  local position = i - first_node + 1
  local name, before = wanted[recorded + position], found[recorded + position]
  local visits = (tonumber(before) or 0) + 1
  if visits > tonumber(cap) then
    capped = capped or {node = rest[i], visits = visits}
  end
  nodes[position], fields[#fields + 1] = rest[i], {name, before, visits}
end

-- The first failures of each kind are kept.
local function keep_failures()
  local first = {}
  for counter, found in pairs(cjson.decode(failures)) do
    local before = write('HINCRBY', run, counter, found.count) - found.count
    for i = 1, math.min(kept_failures - before, #found.first) do
      first[#first + 1] = found.first[i]
    end
  end
  push('RPUSH', key('failures', run_id), first)
end

-- The first write is one that a full Redis refuses: after it, Redis accepts all of the script's.
push('RPUSH', key('history', run_id), {history})
if failures ~= '' then
  keep_failures()
end
if #writes > 1000 then
  in_pieces(write, 'HSET', state, writes)
elseif #writes > 0 then
  write_last('HSET', state, unpack(writes))
end
forget_visit(run_id, visit, v)
if tonumber(width) > 1 then
  remove(key('staged', run_id))
end
if mail then
  write('HDEL', run, 'mail')
  remove(key('mail', run_id))
end
add_usage(run_id, usage)
narrate(run_id, event)

if status == 'succeeded' then
  set_known(run, {{'bytes', bytes_before, bytes}})
  finish(run_id, 'succeeded', output, '', nil, value ~= '' and value or nil)
  return reply('succeeded', 0, take_message(queues), {})
end
if capped then
  set_known(run, {{'bytes', bytes_before, bytes}})
  write('HSET', run, 'capped', table.concat(nodes, ' '))
  finish(run_id, 'failed', '', cjson.encode({code = 'R004', node = capped.node,
    message = string.format("Node '%s' visited %d times (max_loop_iterations=%d)", capped.node,
      capped.visits, cap)}))
  return reply('failed', 0, take_message(queues), {})
end

set_known(run, fields)
if #nodes > tonumber(window) then
  write('HSET', run, 'free', 0, 'window', window)
elseif tonumber(width) > 1 then
  write('HDEL', run, 'free')
end
admit(run_id, step + 1, nodes, tonumber(window), agent, digest)
local long = bytes_told > (tonumber(fold_at or '') or history_limit) and 1 or 0
local begun, message, is_own = {}, take_message(queues)
if is_own and next_token ~= '' then
  local keys, _ = {}
  for i = first_key, first_node - 1 do
    keys[#keys + 1] = rest[i]
  end
  _, begun = begin(run_id, visit_of(step + 1, nodes[1]), next_token, lease_ms, digest, keys)
end
return reply('running', long, message, begun)
