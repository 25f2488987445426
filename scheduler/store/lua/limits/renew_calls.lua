-- Renew what running model calls hold: slots, and shares of budgets.
-- KEYS partition
-- ARGV lease_ms rest
-- REST kind, name and member of each
-- USES limits
for i = 1, #rest, 3 do
  -- A lost lease is not retaken: another call may have it.
  write_undone_by(nil, 'ZADD', id(rest[i], rest[i + 1]), 'XX', now_ms + lease_ms, rest[i + 2])
end
return {'OK', {}}
