-- Adds up what model calls use, as they happen: in the run and the runs above it, by node and model,
-- and in the hour's sums.
--
-- A call's usage is a text: `prompt_tokens completion_tokens cost cached_tokens written_tokens ms
-- node model`, cost `-` if unknown, `<cost>+<cost>` if part of it was for calls in providers' batches,
-- ms `<ms>+<ms>` if it had waited for limits before. The last three may be missing; then it is counted
-- under no node and no model. Of the prompt's tokens, the provider had cached some, and has written
-- some to its cache.
-- A sum is a text too: `calls ms prompt_tokens completion_tokens cached_tokens written_tokens cost
-- unpriced economy failed waited`, the last three not in earlier sums; cost in units of 1e-10
-- dollars, as whole numbers add up exactly; unpriced: calls of unknown cost; economy: the part of the
-- cost for calls in batches; failed: calls without a reply, which count as nothing else; waited: ms for
-- limits. In an hour's sums there follow the calls that took from 2^(n-1) to less than 2^n ms, for
-- n = 1, 2, …
--   spent:<node> <model>       field of a run's record; calls of child runs count for the node that
--                              started them
--   {pNN}:spend:<hour since 1970>  a hash: agent and node of the root run, its batch and the model,
--                              a line each -> sum; once there are too many, others are counted
--                              together
--   {pNN}:labelled:<hour since 1970>  the same by labels of the root run: name and value, a line each
-- LAZY

-- Longer than a worker keeps retrying for an answer.
local ANSWER_KEPT_MS = 3600000
-- The most sums of one run; further nodes and models are counted together, under no name.
local MOST_SUMS = 1000

-- The most sums of an hour by labels; further labels and values are counted together.
local MOST_LABELLED = 1000
local OTHER_LABELS = 'other\nother'
-- Longer calls are counted with those that took so many bits of ms.
local MOST_BITS = 32
local SUM = '^' .. string.rep('(%d+) ', 7) .. '(%d+) ?(%d*) ?(%d*) ?(%d*) ?(.*)$'
local NUMBERS = string.rep('%.0f ', 10) .. '%.0f'

-- Return the counts of calls by the bits of their ms, as a text, with one more.
local function counts_with(counts, bits)
  -- Without the blank, the first would be `()`, which captures a position.
  local shorter, count, longer =
    string.match(counts, '^( *' .. string.rep('%d+ ', bits - 1) .. ')(%d+)(.*)$')
  if count then return shorter .. string.format('%.0f', count + 1) .. longer end
  local _, known = string.gsub(counts, '%d+', '')
  return counts .. (known > 0 and ' ' or '') .. string.rep('0 ', bits - 1 - known) .. '1'
end

-- Return a sum, given as a text or false for none, with a call's numbers added.
-- bits: of its ms; 0: they are not counted.
local function sum_with(before, numbers, bits)
  local sum = {string.match(before or '0 0 0 0 0 0 0 0', SUM)}
  for i, number in ipairs(numbers) do
    sum[i] = (tonumber(sum[i]) or 0) + number
  end
  local text = string.format(NUMBERS, unpack(sum, 1, #numbers))
  local counts = bits > 0 and counts_with(sum[12], math.min(bits, MOST_BITS)) or sum[12]
  return counts == '' and text or text .. ' ' .. counts
end

-- Count a call in a run that has not ended. Return whether it was counted; the run's parent, agent,
-- batch and labels.
local function count_in_run(run_id, node, call)
  local run, name = key('run', run_id), 'spent:' .. node .. ' ' .. call.model
  local status, parent, agent, batch, labels, prompt, completion, cached, written, cost, unpriced,
    sums, before = unpack(redis.call('HMGET', run, 'status', 'parent', 'agent', 'batch', 'labels',
      'prompt_tokens', 'completion_tokens', 'cached_tokens', 'cache_written_tokens', 'cost',
      'unpriced', 'sums', name))
  if is_over(status) then return false, parent, agent, batch, labels end
  local fields = {}
  if call.prompt then
    fields[1] = {'prompt_tokens', prompt, string.format('%.0f', (prompt or 0) + call.prompt)}
    fields[2] =
      {'completion_tokens', completion, string.format('%.0f', (completion or 0) + call.completion)}
  end
  if (call.cached or '0') ~= '0' then
    fields[3] = {'cached_tokens', cached, string.format('%.0f', (cached or 0) + call.cached)}
  end
  if (call.written or '0') ~= '0' then
    fields[#fields + 1] = {'cache_written_tokens', written,
      string.format('%.0f', (written or 0) + call.written)}
  end
  if call.unpriced == 1 then
    fields[#fields + 1] = {'unpriced', unpriced, '1'}
  end
  if not before and tonumber(sums or 0) >= MOST_SUMS then
    name = 'spent: '
    before = redis.call('HGET', run, name)
  elseif not before then
    fields[#fields + 1] = {'sums', sums, (sums or 0) + 1}
  end
  fields[#fields + 1] = {name, before, sum_with(before, call.numbers, 0)}
  set_known(run, fields)
  if call.unpriced == 0 then
    local undone_by = cost and {'HSET', run, 'cost', cost} or {'HDEL', run, 'cost'}
    write_undone_by(undone_by, 'HINCRBYFLOAT', run, 'cost', call.cost)
    if call.economy_units > 0 then
      local economy = redis.call('HGET', run, 'economy')
      write_undone_by(economy and {'HSET', run, 'economy', economy} or {'HDEL', run, 'economy'},
        'HINCRBYFLOAT', run, 'economy', call.economy)
    end
  end
  return true, parent, agent, batch, labels
end

-- Add a call to an hour's sum of a kind, or to that of others if there are too many.
local function count_by_hour(kind, name, call, most, others)
  local hour = hour_of(now_ms)
  local target = partition .. ':' .. kind .. ':' .. hour
  local before = redis.call('HGET', target, name)
  if not before then
    local sums = redis.call('HLEN', target)
    if sums == 0 then note_hour(hour) end
    if sums >= most then
      name = others
      before = redis.call('HGET', target, name)
    end
  end
  local undone_by = before and {'HSET', target, name, before} or {'HDEL', target, name}
  local _, bits = math.frexp(call.ms)
  write_undone_by(undone_by, 'HSET', target, name, sum_with(before, call.numbers, bits))
  if not before then write('PEXPIRE', target, spend_retention_ms) end
end

-- The node whose visit a child run was started by; of an item of a map, the map's branch.
local function starter_of(run_id, visit)
  local map_visit = map_of(visit)
  local branch = map_visit and redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'branch')
  return branch or node_of(visit)
end

-- Count a call in its run and the runs above it, up to one that has ended, and in the hour's sums.
local function count_in_all(run_id, node, call)
  local counts, agent, batch, labels, parent = true, nil, nil, nil, nil
  while true do
    if counts then
      counts, parent, agent, batch, labels = count_in_run(run_id, node, call)
    else
      parent, agent, batch, labels = unpack(redis.call('HMGET', key('run', run_id), 'parent',
        'agent', 'batch', 'labels'))
    end
    local above, visit = string.match(parent or '', '^(%S+) (%S+)$')
    if not above then break end
    node, run_id = starter_of(above, visit), above
  end
  local name = table.concat({agent or '', node, batch or '', call.model}, '\n')
  count_by_hour('spend', name, call, most_hourly_sums, spent_for_others)
  if not labels then return end
  for label, value in pairs(labels_in(labels)) do
    count_by_hour('labelled', label .. '\n' .. value, call, MOST_LABELLED, OTHER_LABELS)
  end
end

local function count_call(run_id, usage)
  local prompt, completion, cost, cached, written, ms, waited, node, model =
    string.match(usage, '^(%d+) (%d+) (%S+) (%d+) (%d+) ?(%d*)%+?(%d*) ?(%S*) ?(.*)$')
  local economy
  cost, economy = string.match(cost, '^([^+]+)%+?(.*)$')
  local call = {
    prompt = prompt, completion = completion, cached = cached, written = written, cost = cost,
    economy = economy, economy_units = math.floor((tonumber(economy) or 0) * 1e10 + 0.5),
    unpriced = cost == '-' and 1 or 0, ms = tonumber(ms) or 0, model = model,
  }
  local cost_units = cost == '-' and 0 or math.floor(cost * 1e10 + 0.5)
  call.numbers = {node == '' and 0 or 1, call.ms, prompt, completion, cached, written, cost_units,
    call.unpriced, call.economy_units, 0, tonumber(waited) or 0}
  count_in_all(run_id, node, call)
end

-- Count a call that no model has answered.
local function count_failed_call(run_id, node, model)
  count_in_all(run_id, node, {model = model, ms = 0, numbers = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0}})
end

-- Count a call whose reply comes too late for its run or visit, once: a worker that gets no answer
-- asks again, so the entry may have been recorded before the visit was lost.
local function count_dropped(run_id, visit, token, position, turn, usage)
  local dropped = key('dropped', run_id .. ' ' .. visit .. ' ' .. token .. ' ' .. position)
  if usage == '' or redis.call('EXISTS', dropped) == 1
    or redis.call('LINDEX', key('turns', run_id .. ' ' .. visit), position) == turn then
    return
  end
  write_undone_by({'DEL', dropped}, 'SET', dropped, '', 'PX', ANSWER_KEPT_MS)
  count_call(run_id, usage)
end
