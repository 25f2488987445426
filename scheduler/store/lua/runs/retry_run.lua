-- Continue an ended run in place, at most once: where it stopped, or from an earlier step.
-- KEYS partition
-- ARGV run_id try digest context queues timeout_ms window shallow step gone_failed gone_handled event checkpoint set_count state_count visit_count child_count rest
-- try: the number of its tries so far; a concurrent retry has read a stale one
-- digest, context, queues: of the agent to continue with, '' for the same, and no queues; timeout_ms: '' for the same
-- limit, '-' for none; shallow: '1' starts new children in place of those that did not succeed
-- step: '' for the one that was not completed, else the one to start again from
-- gone_failed, gone_handled: failures in the checkpoints that this puts aside
-- checkpoint: text, maybe packed, that replaces the last one before that step, or ''
-- REST set_count key, JSON text pairs to set in its state; with a step: state_count pairs that
--      replace its state, and visit_count name, value pairs that replace the record's; run, digest,
--      context, queues of child_count children that continue with other agents; then, with a step, the
--      nodes of its frontier, in id order
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish resume_run
-- ERR  run_gone   too little is left of it to continue
-- ERR  not_over   it has not ended, or was retried since that number was read
local run, state, history = key('run', run_id), key('state', run_id), key('history', run_id)
local status, tries, bytes = unpack(redis.call('HMGET', run, 'status', 'try', 'bytes'))
if not status or redis.call('EXISTS', state, history) < 2 then return {'run_gone'} end
if not FINAL[status] or (tries or '1') ~= try then return {'not_over'} end

local take = taker(rest)
local changed, whole = take(2 * set_count), take(2 * state_count)
local visits, children = take(2 * visit_count), take(4 * child_count)

local changes = {shallow = shallow == '1'}
for i = 1, #children, 4 do
  changes[children[i]] = {digest = children[i + 1], context = children[i + 2],
    queues = children[i + 3]}
end

-- Failures of steps that are repeated no longer count.
local function forget_failures()
  local failures, staying = key('failures', run_id), {}
  for _, text in ipairs(redis.call('LRANGE', failures, 0, -1)) do
    if cjson.decode(text).step < tonumber(step) then
      staying[#staying + 1] = text
    end
  end
  remove_now(failures)
  push('RPUSH', failures, staying)
  local gone_failures = {failed_nodes = gone_failed, handled_failures = gone_handled}
  for counter, count in pairs(gone_failures) do
    local before, gone = tonumber(redis.call('HGET', run, counter) or '') or 0, tonumber(count)
    if before > gone then
      write('HSET', run, counter, before - gone)
    else
      write('HDEL', run, counter)
    end
  end
end

-- Move the later checkpoints to `superseded`, the newest that fit, and restore the state.
local function go_back()
  local length, limit, told, size = redis.call('LLEN', history), tonumber(history_limit), {}, 0
  local gone_bytes = 0
  for place = length - 1, step, -1 do
    local text = redis.call('LINDEX', history, -1)
    gone_bytes, size = gone_bytes + #text, size + #text
    write_undone_by({'RPUSH', history, text}, 'RPOP', history)
    if size <= limit then
      table.insert(told, 1, with_members(string.format('"superseded_by":%d,', try + 1), text))
    end
  end
  local superseded = key('superseded', run_id)
  local before = tonumber(redis.call('HGET', run, 'superseded_bytes') or 0)
  if before + size > limit then
    remove_now(superseded)
    before = 0
  end
  push('RPUSH', superseded, told)
  write('HSET', run, 'superseded_bytes', before + math.min(size, limit))
  write('HINCRBY', run, 'history_bytes', 0 - gone_bytes)

  if redis.call('EXISTS', key('failures', run_id)) == 1 then
    forget_failures()
  end
  forget_kept(run_id)
  write('HDEL', run, 'kept', 'mail')
  local counts = {}
  for _, field in ipairs(redis.call('HKEYS', run)) do
    if string.sub(field, 1, 2) == 'n:' then
      counts[#counts + 1] = field
    end
  end
  in_pieces(write, 'HDEL', run, counts)
  in_pieces(write, 'HSET', run, visits)
  remove_now(state)
  add('HSET', state, whole)
  bytes = 0
  for i = 1, #whole do
    bytes = bytes + #whole[i]
  end
end

local from
if step ~= '' then
  go_back()
  from = {step = tonumber(step), nodes = take()}
end
for i = 1, #changed, 2 do
  local old = redis.call('HSTRLEN', state, changed[i])
  bytes = bytes + #changed[i + 1] - old + (old == 0 and #changed[i] or 0)
end
in_pieces(write, 'HSET', state, changed)
write('HSET', run, 'bytes', bytes)
if checkpoint ~= '' then
  local old = redis.call('LINDEX', history, -1)
  write_undone_by({'LSET', history, -1, old}, 'LSET', history, -1, checkpoint)
  write('HINCRBY', run, 'history_bytes', #checkpoint - #old)
end

resume_run(run_id, {
  digest = digest ~= '' and digest, context = context ~= '' and context,
  queues = digest ~= '' and queues,
  timeout_ms = timeout_ms ~= '' and (timeout_ms == '-' and '' or timeout_ms),
  window = tonumber(window), shallow = shallow == '1' and '1', event = event, from = from,
}, changes)
return reply()
