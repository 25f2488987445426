-- Remove a finished run whose retention time is over, at most once: it takes the run's timer.
-- KEYS partition
-- ARGV run_id by_hand
-- by_hand: '1' if a person removes it; else it stays, as all of it does, until it is archived
-- USES store hooks hours listed indexes kept whole
-- OK   removed  1, or 0 if it is gone or not over
local root, expiry = redis.call('HGET', key('run', run_id), 'root') or run_id, timer('expiry', run_id)
if archive_after_ms >= 0 and by_hand == '' and redis.call('ZSCORE', archivable, root) then
  if redis.call('ZSCORE', timers, expiry) then
    write('ZADD', timers, now_ms + UNTIL_ARCHIVED_MS, expiry)
    keep_parts(run_id)
  end
  return {'OK', {}, 0}
end
if write('ZREM', timers, expiry) == 0 then return {'OK', {}, 0} end
local r = read_listed(run_id)
if r.agent and not r.parent then
  local gone = key('gone', run_id)
  write_undone_by({'DEL', gone}, 'SET', gone, cjson.encode({
    agent = r.agent, status = r.status, ended = tonumber(r.ended) or now_ms, removed = now_ms,
    kept_ms = retention_ms}), 'PX', retention_ms)
end
unlist_run(run_id, r)
if r.batch and not r.parent then
  -- Its batch still tells what it was and cost.
  local record, tally = group_tag .. 'sleipnir:batch:' .. r.batch, 'batchtally:' .. r.batch
  sum_up(r, 1, function(name, field, n)
    if name == tally then count_in(record, 'removed ' .. field, n) end
  end)
  write_undone_by(nil, 'PEXPIRE', record, string.format('%.0f', 2 * retention_ms))
end
local sessions = partition .. ':sessions'
if r.session and redis.call('HGET', sessions, r.session) == run_id then
  write('HDEL', sessions, r.session)
end
if r.digest then  -- the record is there
  count_in(partition .. ':bundles', r.digest, -1)
end
write('ZREM', archivable, run_id)
remove(key('run', run_id), key('children', run_id))
remove_parts(run_id)
return {'OK', {}, 1}
