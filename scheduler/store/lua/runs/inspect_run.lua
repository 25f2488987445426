-- Read everything stored about a run at one instant, to check its consistency.
-- KEYS partition
-- ARGV run_id whole index_count rest
-- REST index_count names of indexes that name this run; then visits that anything refers to,
--      besides open ones; `<visit> <call>` for a wait
-- whole: '1' for all children and the parent's list of them; '0' for awaited children only
-- USES store listed dispatch waiting inspect
-- OK   record visits staged pending deadline expiry children parent keys steps spawned digest indexes messages unasked
--      visits    visit, packed, its timer, waits, map, turns, and whether it is set aside
--      waits     call, row, its timer, asked at, whether there is a question, since when it is
--                open to its root's model
--      map       running invocations, halted, missing items
--      children  run id, status, parent
--      parent    status, waits of its visit, whether it lists this run, and has it as spawned
--      spawned   run ids of children that its model has started and that are alive
--      keys      kind, ms until it expires: -1 never, -2 it does not exist
--      indexes   name, score pairs; with `whole` alone
--      messages  how many are in its inbox
--      unasked   questions that are open to its model, but asked by no run; with `whole` only
--      digest    of all the rest: repair_run does what was decided on it only if it still matches
--      '' stands for what does not exist
local named, visits = {}, {}
for i, name in ipairs(rest) do
  table.insert(i <= tonumber(index_count) and named or visits, name)
end
local reading = inspect(run_id, visits, whole == '1')
return {'OK', {}, reading[1], reading[2], reading[3], reading[4], reading[5], reading[6],
  reading[7], reading[8], reading[9], reading[10], reading[11], digest_of(reading),
  whole == '1' and inspect_indexes(run_id, named) or {},
  redis.call('LLEN', key('messages', run_id)), whole == '1' and inspect_escalations(run_id) or {}}
