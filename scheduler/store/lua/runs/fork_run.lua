-- Bring a run into being that goes on where another one was after a step.
-- KEYS partition
-- ARGV run_id agent digest step window event field_count visit_count seed_count history_count rest
-- step: the one it begins with; window: how many of its nodes start at once
-- REST field_count name, value pairs of its record; visit_count pairs of that which count visits;
--      seed_count key, JSON text pairs of its state; history_count checkpoints of the steps before;
--      then the nodes of its frontier, in id order
-- USES store listed indexes dispatch create
local first = 1
local function take(count)
  local taken = {}
  for i = first, first + count - 1 do
    taken[#taken + 1] = rest[i]
  end
  first = first + count
  return taken
end

local fields, visits = take(2 * field_count), take(2 * visit_count)
local seeds, history = take(2 * seed_count), take(history_count)
create(run_id, fields, seeds, event, agent, digest, {
  step = tonumber(step), nodes = take(#rest - first + 1), window = tonumber(window),
  visits = visits, history = history})
return reply()
