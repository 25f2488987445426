-- Stage the result of one branch of a parallel step, at most once.
-- A fatal failure interrupts siblings that are not executing; those that are may still finish.
-- KEYS partition
-- ARGV run_id step visit token outcome failed kept_as usage queues
-- failed: '1' for a fatal failure, '2' for an outcome that is void because of one, else '0'
-- kept_as: what a retry does with a visit that failed, see lib/kept.lua
-- queues: of a thread that could run another visit at once, '' if it could not
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish
-- OK   open message  visits of this step that are not done, 0 asks the caller to advance; the next
--      message of these queues, which that thread takes instead of asking for it
-- ERR  run_closed stale_visit
local run = key('run', run_id)
local visits, staged = key('visits', run_id), key('staged', run_id)
local status, deadline = unpack(redis.call('HMGET', run, 'status', 'deadline'))
local refusal, v = check_holder(run_id, visit, token, status, deadline)
if refusal then return refusal end

if v.status == 'leased' then
  add('HSET', staged, {node_of(visit), outcome})
  change(run_id, 'busy', -1)
  add_usage(run_id, usage)
  if failed == '1' then
    write('HSET', run, 'failing', '1')
    remove_now(key('pending', run_id))
    local open = redis.call('HGETALL', visits)
    for i = 1, #open, 2 do
      local sibling = parse_visit(open[i + 1])
      if open[i] ~= visit and (map_of(open[i]) or sibling.status ~= 'leased') then
        report_interrupted(run_id, open[i], sibling)
        interrupt_visit(run_id, open[i], sibling, 'broken')
      end
    end
  end
end

if v.status == 'leased' and failed ~= '0' then
  set_aside(run_id, visit, v, failed == '1' and kept_as or 'broken', true)
end

-- The last branch stays leased, as `staged`, until its step is advanced: if this worker dies in
-- between, the end of the lease brings another one here.
if redis.call('HLEN', visits) == 1 and redis.call('EXISTS', key('pending', run_id)) == 0 then
  if v.status == 'leased' then
    v.tries = 1  -- now counts workers lost while advancing
  end
  v.status = 'staged'
  write_visit(run_id, visit, v)
  return reply(0, '')
end
if failed == '0' then
  forget_visit(run_id, visit, v)
else
  write_undone_by({'HSET', visits, visit, v.packed}, 'HDEL', visits, visit)
  stop_timer(timer('visit', run_id, visit))
end
release_place(run_id, visit)
settle(run_id)
return reply(redis.call('HLEN', visits), (take_message(queues)))
