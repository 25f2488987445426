-- The end of a run: everything it held is released, its children end, its parent goes on.

-- Take a visit out of every index; whatever it was doing has become void.
local function drop_visit(run_id, visit, v, close_child)
  write('ZREM', timers, timer('visit', run_id, visit), timer('child', run_id, visit))
  forget_turns(run_id, visit, v)
  if v.status == 'asked' then
    write('ZREM', inbox, run_id .. ' ' .. visit)
    write('HDEL', key('questions', run_id), visit)
  elseif v.status == 'map' or v.payload == 'collect' then
    remove(key('map', run_id .. ' ' .. visit))
  elseif v.status == 'child' then
    close_child(v.payload)
  end
end

local finish

local function cancel_child(child_id)
  local status = redis.call('HGET', key('run', child_id), 'status')
  if status and not FINAL[status] then
    finish(child_id, 'cancelled', '', cjson.encode({
      code = 'cancelled', message = 'the parent run ended', node = cjson.null}), true)
  end
end

-- What a parent's agent node is resumed with when its child ends.
local function child_result(child_id, status, output, failure)
  local run = key('run', child_id)
  local prompt, completion, cost, unpriced, cached = unpack(redis.call('HMGET', run,
    'prompt_tokens', 'completion_tokens', 'cost', 'unpriced', 'cached_tokens'))
  return cjson.encode({
    run_id = child_id, status = status, output = output, error = failure,
    usage = table.concat(
      {prompt or '0', completion or '0', unpriced and '-' or cost or '0', cached or '0'}, ' '),
  })
end

-- `failure` is the error as JSON text, or ''. `orphaned`: the parent has no use for the result.
function finish(run_id, status, output, failure, orphaned)
  local run = key('run', run_id)
  local before, started, parent, batch, digest, deadline = unpack(redis.call('HMGET', run,
    'status', 'started', 'parent', 'batch', 'digest', 'deadline'))

  local open = redis.call('HGETALL', key('visits', run_id))
  for i = 1, #open, 2 do
    drop_visit(run_id, open[i], parse_visit(open[i + 1]), cancel_child)
  end
  if deadline then
    write('ZREM', timers, timer('deadline', run_id))
  end
  remove(key('visits', run_id), key('staged', run_id), key('pending', run_id),
    key('questions', run_id))

  undo[#undo + 1] = {'HDEL', run, 'output', 'error', 'ended'}
  write_undone_by({'HSET', run, 'status', before}, 'HSET', run, 'status', status,
    'output', output, 'error', failure, 'ended', now_ms)
  narrate(run_id, cjson.encode({
    kind = 'ended', status = status, error = failure,
    elapsed_ms = started and now_ms - tonumber(started) or 0}))

  add('ZADD', timers, {now_ms + retention_ms, timer('expiry', run_id, digest)})
  for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children'}) do
    -- The sweep removes them at `expiry`; this is for when no scheduler ever runs again.
    local kept = key(kind, run_id)
    write_undone_by({'PERSIST', kept}, 'PEXPIRE', kept, 2 * retention_ms)
  end

  if batch then
    tell('sleipnir:batch:' .. batch, run_id)
  end
  if parent and not orphaned then
    local parent_run, parent_visit = string.match(parent, '^(%S+) (%S+)$')
    local v = read_visit(parent_run, parent_visit)
    if v and v.status == 'child' and v.payload == run_id then
      write('ZREM', timers, timer('child', parent_run, parent_visit))
      if before == 'waiting' then
        change(parent_run, 'busy', 1)
      end
      resume(parent_run, parent_visit, v, child_result(run_id, status, output, failure))
      settle(parent_run)
    end
  end
end
