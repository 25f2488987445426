-- Bring a run into being: its record, seeds, first checkpoint and first frontier.

-- `fields` are name, value pairs of the run's record; `seeds` key, JSON text pairs of its state.
local function create(run_id, fields, seeds, start, history, event, agent, digest)
  local bytes = 0
  for i = 2, #seeds, 2 do
    bytes = bytes + #seeds[i - 1] + #seeds[i]
  end
  local run, state = key('run', run_id), key('state', run_id)
  local checkpoints, runs = key('history', run_id), partition .. ':runs'
  history = string.format('{"at":%.0f,', now_ms) .. history
  local all = {'DEL', run, state, checkpoints, key('events', run_id)}
  write_undone_by(all, 'HSET', run, 'status', 'queued', 'step', 1, 'width', 1, 'busy', 1,
    'n:' .. start, 1, 'frontier', start, 'bytes', bytes, 'history_bytes', #history,
    'created', now_ms, unpack(fields))
  add('HSET', state, seeds)
  write_undone_by(nil, 'RPUSH', checkpoints, history)
  add('ZADD', runs, {now_ms, run_id})
  write('HINCRBY', partition .. ':bundles', digest, 1)
  narrate(run_id, event)
  admit(run_id, 1, {start}, 1, agent, digest)
end
