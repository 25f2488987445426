-- Adds up what model calls use, as they happen: in the run and the runs above it, by node and model,
-- and in the day's sums by agent.
--
-- A call's usage is a text: `prompt_tokens completion_tokens cost cached_tokens ms node model`, cost
-- `-` if unknown. The last three may be missing; then it is counted under no node and no model.
-- A sum is a text too: `calls ms prompt_tokens completion_tokens cached_tokens cost unpriced`, cost
-- in units of 1e-10 dollars, as whole numbers add up exactly; unpriced: calls of unknown cost.
--   spent:<node> <model>       field of a run's record; calls of child runs count for the node that
--                              started them
--   {pNN}:spent:<day since 1970>  a hash: agent of the root run -> sum
-- LAZY

local DAY_MS = 86400000
local KEPT_DAYS = 35
-- The most sums of one run; further nodes and models are counted together, under no name.
local MOST_SUMS = 1000

-- Return a sum, given as a text or false for none, with a call added.
local function sum_with(before, call)
  local calls, ms, prompt, completion, cached, cost, unpriced =
    string.match(before or '0 0 0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  return string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', calls + call.calls, ms + call.ms,
    prompt + call.prompt, completion + call.completion, cached + call.cached,
    cost + call.cost_units, unpriced + call.unpriced)
end

-- Count a call in a run that has not ended. Return whether it was counted, its parent and agent.
local function count_in_run(run_id, node, call)
  local run, name = key('run', run_id), 'spent:' .. node .. ' ' .. call.model
  local status, parent, agent, prompt, completion, cached, cost, unpriced, sums, before =
    unpack(redis.call('HMGET', run, 'status', 'parent', 'agent', 'prompt_tokens',
      'completion_tokens', 'cached_tokens', 'cost', 'unpriced', 'sums', name))
  if is_over(status) then return false, parent, agent end
  local fields = {
    {'prompt_tokens', prompt, string.format('%.0f', (prompt or 0) + call.prompt)},
    {'completion_tokens', completion, string.format('%.0f', (completion or 0) + call.completion)},
  }
  if call.cached ~= '0' then
    fields[3] = {'cached_tokens', cached, string.format('%.0f', (cached or 0) + call.cached)}
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
  fields[#fields + 1] = {name, before, sum_with(before, call)}
  set_known(run, fields)
  if call.unpriced == 0 then
    local undone_by = cost and {'HSET', run, 'cost', cost} or {'HDEL', run, 'cost'}
    write_undone_by(undone_by, 'HINCRBYFLOAT', run, 'cost', call.cost)
  end
  return true, parent, agent
end

local function count_by_day(agent, call)
  local target = partition .. ':spent:' .. math.floor(now_ms / DAY_MS)
  local before = redis.call('HGET', target, agent)
  local undone_by = before and {'HSET', target, agent, before} or {'HDEL', target, agent}
  write_undone_by(undone_by, 'HSET', target, agent, sum_with(before, call))
  if not before then
    write('PEXPIRE', target, KEPT_DAYS * DAY_MS)
  end
end

-- The node whose visit a child run was started by; of an item of a map, the map's branch.
local function starter_of(run_id, visit)
  local map_visit = map_of(visit)
  local branch = map_visit and redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'branch')
  return branch or node_of(visit)
end

-- Count a call in its run and the runs above it, up to one that has ended, and in the day's sums.
local function count_call(run_id, usage)
  local prompt, completion, cost, cached, ms, node, model =
    string.match(usage, '^(%d+) (%d+) (%S+) (%d+) ?(%d*) ?(%S*) ?(.*)$')
  local call = {
    prompt = prompt, completion = completion, cached = cached, cost = cost, model = model,
    cost_units = cost == '-' and 0 or math.floor(cost * 1e10 + 0.5),
    unpriced = cost == '-' and 1 or 0, ms = tonumber(ms) or 0, calls = node == '' and 0 or 1,
  }
  local counts, root_agent = true, ''
  while run_id do
    local parent, agent
    if counts then
      counts, parent, agent = count_in_run(run_id, node, call)
    else
      parent, agent = unpack(redis.call('HMGET', key('run', run_id), 'parent', 'agent'))
    end
    root_agent = agent or root_agent
    local above, visit = string.match(parent or '', '^(%S+) (%S+)$')
    node = counts and above and starter_of(above, visit)
    run_id = above
  end
  count_by_day(root_agent, call)
end
