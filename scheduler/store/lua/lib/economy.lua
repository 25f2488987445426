-- Requests that providers are to answer in batches, each kept by the partition of its run.
--   request:<id>             a hash: run, visit, call of the row, collection, since when it waits,
--                            size in bytes and stored, tokens, digest, body, node and model it counts
--                            for, the hold of budgets, which may be ''; `group` once it belongs to one, `unwanted` if nobody
--                            waits for the reply any more
--   collected:<collection>   zset of ids by when they joined: of no group yet
--   collecting               hash: collection → bytes stored of these
--   sent:<group>             zset of ids: of a group, and awaited
--   unwanted:<group>         zset of ids: of a group, and awaited by nobody
--   settled                  hash `<id> <group>` → `<tokens> <cost> <hold>`: what is to be released
--                            of budgets, which are in another slot
-- LAZY

local REQUEST = {'run', 'visit', 'call', 'collection', 'since', 'bytes', 'stored', 'tokens',
  'digest', 'hold', 'group', 'unwanted', 'named'}

local function read_request(id)
  local values, r = redis.call('HMGET', key('request', id), unpack(REQUEST)), {}
  for i, name in ipairs(REQUEST) do
    r[name] = values[i]
  end
  return r.run and r
end

-- It outlives its run, so that what comes too late is still counted.
local function keep_requests(...)
  for _, name in ipairs({...}) do
    write('PEXPIRE', name, 2 * retention_ms)
  end
end

local function put_request(list, id)
  local name = key(list[1], list[2])
  write('ZADD', name, now_ms, id)
  keep_requests(name)
end

local function settle_hold(id, group, hold, used)
  if hold == '' then return end
  local settled = partition .. ':settled'
  write('HSET', settled, id .. ' ' .. group, used .. ' ' .. hold)
  keep_requests(settled)
end

local function leave_collection(id, r)
  write('ZREM', key('collected', r.collection), id)
  write('HINCRBY', partition .. ':collecting', r.collection, 0 - r.stored)
end

-- Nobody waits for the reply any more: take a request out of its collection; a group may be sent.
local function drop_request(id)
  local r = read_request(id)
  if not r or r.unwanted then return end
  if not r.group then
    leave_collection(id, r)
    settle_hold(id, '', r.hold, '0 0')
    remove_now(key('request', id))
    return
  end
  write('ZREM', key('sent', r.group), id)
  put_request({'unwanted', r.group}, id)
  write('HSET', key('request', id), 'unwanted', '1')
end

-- Have a request wait in its collection, unless an equal one of that id does already, or is with
-- the provider. `fields`: those of its hash.
local function join_request(id, fields, digest, collection, stored)
  local request, r = key('request', id), read_request(id)
  if r and r.digest == digest then
    if r.unwanted then
      write('ZREM', key('unwanted', r.group), id)
      put_request({'sent', r.group}, id)
      write('HDEL', request, 'unwanted')
    end
    return
  elseif r then
    drop_request(id)
    if r.group then
      write('ZREM', key('unwanted', r.group), id)
      settle_hold(id, r.group, r.hold, '0 0')
      remove_now(request)
    end
  end
  write('HSET', request, unpack(fields))
  keep_requests(request)
  put_request({'collected', collection}, id)
  local collecting = partition .. ':collecting'
  write('HINCRBY', collecting, collection, stored)
  keep_requests(collecting)
end

-- Take a request that is answered out of everything but its row.
local function forget_request(id, r)
  write('ZREM', key(r.unwanted and 'unwanted' or 'sent', r.group), id)
  remove_now(key('request', id))
end
