-- Deliver what a provider says to a request of a group, once: its usage counts, and its visit goes
-- on; or nobody waits any more, then it only counts.
-- KEYS partition
-- ARGV request_id group result usage used
-- result: a JSON object; gets `since`, when the visit began to wait, in front
-- usage: as lib/usage.lua says; `failed` if the request got no reply
-- used: tokens and billionths of a dollar, of budgets
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish
-- OK   outcome  delivered | dropped | unknown: another delivery came first, or it is of no group
local r = read_request(request_id)
if not r or r.group ~= group then return reply('unknown') end
forget_request(request_id, r)
settle_hold(request_id, group, r.hold, used)
if usage == 'failed' then
  count_failed_call(r.run, string.match(r.named, '^(%S*) ?(.*)$'))
elseif usage ~= '' then
  count_call(r.run, usage .. ' 0 ' .. r.named)
end
if r.unwanted then return reply('dropped') end
local text = string.format('{"since":%s,', r.since) .. string.sub(result, 2)
close_wait(r.run, r.visit, r.call, text)
return reply('delivered')
