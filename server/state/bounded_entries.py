"""A Lua script for entries in Redis that are bounded in number, bytes and age over all servers."""

ALL, ANY_NUMBER = -1, 2**53
"""Arguments of the script: every expired entry is removed; the number of entries is not bounded."""

WRITE_ENTRIES = """
local size, bytes, life, prefix, at_once = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local held = tonumber(redis.call('GET', KEYS[2]) or 0)
for i = 6, #ARGV, 2 do
  local length = #ARGV[i + 1]
  redis.call('SET', prefix .. ARGV[i], ARGV[i + 1], 'PX', life)
  held = held + length * redis.call('ZADD', KEYS[1], now, ARGV[i] .. ' ' .. length)
end
local function forget(entry)
  local id, length = string.match(entry, '(%S+) (%d+)')
  redis.call('ZREM', KEYS[1], entry)
  redis.call('DEL', prefix .. id)
  held = held - length
end
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - life, 'LIMIT', 0, at_once)) do forget(entry) end
while redis.call('ZCARD', KEYS[1]) > size or held > bytes do
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not oldest then held = 0 break end
  forget(oldest)
end
redis.call('SET', KEYS[2], held, 'PX', life)
redis.call('PEXPIRE', KEYS[1], life)
return held
"""
"""Adds entries and removes those beyond the bounds, in one atomic step.

KEYS: the index, a sorted set of "id bytes" scored by the time of writing in milliseconds, and the total bytes.
ARGV: most entries, most bytes, life in milliseconds, prefix of the keys, most expired entries that are removed (or ALL),
then id and value of each entry. The clock is that of Redis, so that the clocks of the servers need not agree.
"""
