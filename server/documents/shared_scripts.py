"""The scripts of shared jobs, each of which Redis runs as one step, by its own clock.

A job is a hash: digest (SHA-256 of its key), state, server, attempts, characters, upload, record, and at the end token or
problem. OPEN is a sorted set of the jobs in progress, scored by the time in milliseconds at which the lease expires.
"""

from __future__ import annotations

from server.store.redis_connection import Script

JOB = "attentive:jobs:1:job:"
"""Prefix of the keys of jobs. The number is the version of the formats."""
OPEN = "attentive:jobs:1:open"

_NOW = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
"""

START = Script(
    _NOW
    + """
local id, server, lease, life = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('HSET', KEYS[1], 'digest', ARGV[5], 'state', 'translating', 'server', server, 'attempts', 1,
           'characters', ARGV[6], 'upload', ARGV[7], 'record', ARGV[8])
redis.call('PEXPIRE', KEYS[1], life)
redis.call('ZADD', KEYS[2], now + lease, id)
"""
)
"""Adds a job on which a server works."""

RENEW = Script(
    _NOW
    + """
local prefix, server, lease, life = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local lost = {}
for i = 5, #ARGV do
  if redis.call('HGET', prefix .. ARGV[i], 'server') == server then
    redis.call('ZADD', KEYS[1], 'XX', now + lease, ARGV[i])
    redis.call('PEXPIRE', prefix .. ARGV[i], life)
  else
    table.insert(lost, ARGV[i])
  end
end
return lost
"""
)
"""Renews the leases of a server. Returns the jobs that it no longer has."""

CLAIM = Script(
    _NOW
    + """
local prefix, server, lease, life, files = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 10)) do
  if redis.call('HGET', prefix .. id, 'state') == 'translating' then
    redis.call('HSET', prefix .. id, 'server', server)
    redis.call('HINCRBY', prefix .. id, 'attempts', 1)
    redis.call('PEXPIRE', prefix .. id, life)
    redis.call('PEXPIRE', files .. redis.call('HGET', prefix .. id, 'upload'), life)
    redis.call('ZADD', KEYS[1], now + lease, id)
    return id
  end
  redis.call('ZREM', KEYS[1], id)
end
return false
"""
)
"""Gives a server the job whose lease expired first, and returns its id."""

RELEASE = Script(
    _NOW
    + """
if redis.call('HGET', KEYS[1], 'server') == ARGV[2] and redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  redis.call('HSET', KEYS[1], 'server', '')
  redis.call('HINCRBY', KEYS[1], 'attempts', -1)
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[3]), ARGV[1])
end
"""
)
"""Offers a job of a server to all servers after some milliseconds."""

FINISH = Script("""
if redis.call('HGET', KEYS[1], 'server') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'state', ARGV[4], ARGV[5], ARGV[6])
redis.call('HDEL', KEYS[1], 'record', 'upload')
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]))
redis.call('ZREM', KEYS[2], ARGV[1])
return 1
""")
"""Stores the outcome of a job of a server; may be repeated. Returns 0 if another server has the job now."""

TAKE = Script("""
if redis.call('HGET', KEYS[1], 'state') ~= 'done' then return 0 end
return redis.call('DEL', KEYS[1])
""")
"""Removes a job that is done. Returns 1 for one caller only."""
