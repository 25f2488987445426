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

local function count_usage(run, call)
  write('HINCRBY', run, 'prompt_tokens', call.prompt)
  write('HINCRBY', run, 'completion_tokens', call.completion)
  if call.cached ~= '0' then
    write('HINCRBY', run, 'cached_tokens', call.cached)
  end
  if call.cost == '-' then
    write('HSET', run, 'unpriced', '1')
  else
    write('HINCRBYFLOAT', run, 'cost', call.cost)
  end
end

-- Add a call to a sum, given as the text that it was before, or false.
local function add_to_sum(target, field, before, call)
  local calls, ms, prompt, completion, cached, cost, unpriced =
    string.match(before or '0 0 0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local price = tonumber(call.cost)
  local sum = string.format('%.0f %.0f %.0f %.0f %.0f %.0f %.0f', calls + call.calls, ms + call.ms,
    prompt + call.prompt, completion + call.completion, cached + call.cached,
    cost + math.floor((price or 0) * 1e10 + 0.5), unpriced + (price and 0 or 1))
  local undone_by = before and {'HSET', target, field, before} or {'HDEL', target, field}
  write_undone_by(undone_by, 'HSET', target, field, sum)
end

local function count_by_node(run, node, call)
  local field = 'spent:' .. node .. ' ' .. call.model
  local before, sums = unpack(redis.call('HMGET', run, field, 'sums'))
  if not before and tonumber(sums or 0) >= MOST_SUMS then
    field = 'spent: '
    before = redis.call('HGET', run, field)
  elseif not before then
    write('HINCRBY', run, 'sums', 1)
  end
  add_to_sum(run, field, before, call)
end

local function count_by_day(agent, call)
  local target = partition .. ':spent:' .. math.floor(now_ms / DAY_MS)
  local before = redis.call('HGET', target, agent)
  add_to_sum(target, agent, before, call)
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
    prompt = prompt, completion = completion, cost = cost, cached = cached, model = model,
    ms = tonumber(ms) or 0, calls = node == '' and 0 or 1,
  }
  local is_counted, agent = true, ''
  while run_id do
    local run = key('run', run_id)
    local status, parent, of = unpack(redis.call('HMGET', run, 'status', 'parent', 'agent'))
    is_counted = is_counted and not is_over(status)
    if is_counted then
      count_usage(run, call)
      count_by_node(run, node, call)
    end
    agent = of or agent
    local above, visit = string.match(parent or '', '^(%S+) (%S+)$')
    node = is_counted and above and starter_of(above, visit)
    run_id = above
  end
  count_by_day(agent, call)
end
