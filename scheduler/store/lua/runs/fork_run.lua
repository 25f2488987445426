-- Create a run that continues where another one was after a step, at most once per run id.
-- KEYS partition
-- ARGV run_id agent digest step window event field_count visit_count seed_count history_count failure_count rest
-- step: the one it begins with; window: how many of its nodes start at once
-- REST field_count name, value pairs of its record; visit_count pairs that count visits;
--      seed_count key, JSON text pairs of its state; history_count checkpoints of the steps before;
--      failure_count failures in these that did not end the run; then the nodes of its frontier, in
--      id order
-- USES store hooks hours listed indexes dispatch create
-- OK   created  1, or 0 if a run of that id exists already
if redis.call('EXISTS', key('run', run_id)) == 1 then
  return reply(0)
end
local take = taker(rest)
local fields, visits = take(2 * field_count), take(2 * visit_count)
local seeds, history = take(2 * seed_count), take(history_count)
local failures = take(failure_count)
create(run_id, fields, seeds, event, agent, digest, {
  step = tonumber(step), nodes = take(), window = tonumber(window),
  visits = visits, history = history})
push('RPUSH', key('failures', run_id), failures)
return reply(1)
