-- Bring a run into being: its record, seeds, first checkpoint and first frontier.

-- `fields` are name, value pairs of the run's record; `seeds` key, JSON text pairs of its state.
local function create(run_id, fields, seeds, start, history, event, agent, digest)
  local bytes = 0
  for i = 2, #seeds, 2 do
    bytes = bytes + #seeds[i - 1] + #seeds[i]
  end
  redis.call('HSET', key('run', run_id), 'status', 'queued', 'step', 1, 'width', 1, 'busy', 1,
    'n:' .. start, 1, 'frontier', start, 'bytes', bytes, 'created', now_ms, unpack(fields))
  in_pieces('HSET', key('state', run_id), seeds)
  redis.call('RPUSH', key('history', run_id), string.format('{"at":%.0f,', now_ms) .. history)
  redis.call('ZADD', partition .. ':runs', now_ms, run_id)
  redis.call('HINCRBY', partition .. ':bundles', digest, 1)
  narrate(run_id, event)
  admit(run_id, 1, {start}, 1, agent, digest)
end
