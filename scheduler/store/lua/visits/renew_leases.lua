-- Renew the leases that one worker holds in this partition.
-- KEYS partition
-- ARGV lease_ms rest
-- REST run_id, visit, token of each lease
-- USES store
-- OK   lost  the positions, from 0, of leases that are gone
local lost = {}
for i = 1, #rest, 3 do
  local run_id, visit, token = rest[i], rest[i + 1], rest[i + 2]
  if holds(read_visit(run_id, visit), token) then
    write_undone_by(nil, 'ZADD', timers, now_ms + lease_ms, timer('visit', run_id, visit))
  else
    lost[#lost + 1] = (i - 1) / 3
  end
end
return {'OK', {}, lost}
