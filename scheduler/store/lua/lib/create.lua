-- Create a run: its record, seeds, first checkpoints and first frontier, and its index entries.

-- `fields` are name, value pairs of the run's record; `seeds` key, JSON text pairs of its state.
-- `past`: where to continue a run that does not begin at its start: step, nodes, window, visits
-- (name, value pairs of the record), history.
local function create(run_id, fields, seeds, event, agent, digest, past)
  local bytes, history_bytes = 0, 0
  for i = 2, #seeds, 2 do
    bytes = bytes + #seeds[i - 1] + #seeds[i]
  end
  for _, checkpoint in ipairs(past.history) do
    history_bytes = history_bytes + #checkpoint
  end
  local run, state = key('run', run_id), key('state', run_id)
  local checkpoints = key('history', run_id)
  local all = {'DEL', run, state, checkpoints, key('events', run_id)}
  write_undone_by(all, 'HSET', run, 'status', 'queued', 'step', past.step, 'width', #past.nodes,
    'busy', #past.nodes, 'frontier', table.concat(past.nodes, ' '), 'bytes', bytes,
    'history_bytes', history_bytes, 'created', now_ms, past.visits[1], past.visits[2],
    unpack(fields))
  if #past.nodes > past.window then
    add('HSET', run, {'free', 0, 'window', past.window})
  end
  if #past.visits > 2 then
    add('HSET', run, past.visits)
  end
  add('HSET', state, seeds)
  push('RPUSH', checkpoints, past.history)
  local listed_by = {status = 'queued', created = now_ms}
  for i = 1, #fields, 2 do
    listed_by[fields[i]] = fields[i + 1]
  end
  list_run(run_id, listed_by)
  count_in(partition .. ':bundles', digest, 1)
  narrate(run_id, event)
  admit(run_id, past.step, past.nodes, past.window, agent, digest)
end

-- The `past` of a run that begins at one node.
local function no_past(start, history)
  return {
    step = 1, nodes = {start}, window = 1, visits = {'n:' .. start, 1},
    history = {with_members(string.format('"at":%.0f,', now_ms), history)},
  }
end
