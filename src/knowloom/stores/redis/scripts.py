"""The scripts that change a space: Redis runs each as one step.

They only get texts of a plan, never parts of a command: no text of a user can become a command.
"""

from __future__ import annotations

DONE, CHANGED, PENDING = b"done", b"changed", b"pending"
COMMITTED, ABORTED = "committed", "aborted"

_APPLY = """
local meta, items, ids, subjects, log, history = unpack(KEYS)
local function check(key, kind)
  local actual = redis.call('TYPE', key)['ok']
  if actual ~= 'none' and actual ~= kind then
    error({err = 'WRONGTYPE ' .. key .. ' is a ' .. actual})
  end
end
local function apply(text)
  local plan = cjson.decode(text)
  for _, key in ipairs({meta, items, log}) do check(key, 'hash') end
  for _, key in ipairs({ids, subjects, history}) do check(key, 'zset') end
  redis.call('HSET', meta, 'items', plan.items, 'digest', plan.digest, 'changes', plan.changes)
  for _, pair in ipairs(plan.put) do
    redis.call('HSET', items, pair[1], pair[2])
    redis.call('ZADD', ids, 0, pair[1])
  end
  for _, id in ipairs(plan.delete) do
    redis.call('HDEL', items, id)
    redis.call('ZREM', ids, id)
  end
  for _, member in ipairs(plan.removed_subjects) do redis.call('ZREM', subjects, member) end
  for _, member in ipairs(plan.added_subjects) do redis.call('ZADD', subjects, 0, member) end
  for _, pair in ipairs(plan.log) do redis.call('HSET', log, pair[1], pair[2]) end
  for _, member in ipairs(plan.history) do redis.call('ZADD', history, 0, member) end
  redis.call('HINCRBY', meta, 'version', 1)
end
"""
_CHECK = """
if (redis.call('HGET', KEYS[1], 'pending') or '') ~= '' then return 'pending' end
if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then return 'changed' end
"""
# version, plan
COMMIT = f"{_APPLY}{_CHECK} apply(ARGV[2]) return 'done'"
# version, transaction, plan
PREPARE = f"""{_CHECK}
local now = redis.call('TIME')[1]
redis.call('HSET', KEYS[1], 'pending', ARGV[2], 'staged', ARGV[3], 'staged_at', now)
return 'done'
"""
# transaction
FINISH = f"""{_APPLY}
if redis.call('HGET', meta, 'pending') ~= ARGV[1] then return 'changed' end
apply(redis.call('HGET', meta, 'staged'))
redis.call('HDEL', meta, 'pending', 'staged', 'staged_at')
return 'done'
"""
# transaction
CANCEL = """
if redis.call('HGET', KEYS[1], 'pending') ~= ARGV[1] then return 'changed' end
redis.call('HDEL', KEYS[1], 'pending', 'staged', 'staged_at')
return 'done'
"""
# The age, in seconds, of a pending write by the clock of the server.
AGE = """
local at = redis.call('HGET', KEYS[1], 'staged_at')
return at and redis.call('TIME')[1] - at or -1
"""
