"""Rate limits per API key that several servers share, in Redis."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from knowloom.errors import Unavailable
from knowloom.keyvalue.redis_address import parse_redis_address
from knowloom.keyvalue.redis_client import RedisClient
from knowloom.server.limits.rate_limit import RateLimiter

log = logging.getLogger(__name__)

TIMEOUT_S = 0.25  # of a request to Redis; the limit of this server counts then
# A token bucket by the clock of the server: key; requests per minute, cost. Returns used, as text.
_TAKE = """
local now = redis.call('TIME')
now = now[1] + now[2] / 1000000
local rate, cost = tonumber(ARGV[1]), tonumber(ARGV[2])
local used = tonumber(redis.call('HGET', KEYS[1], 'used') or '0')
local since = tonumber(redis.call('HGET', KEYS[1], 'since') or now)
used = math.max(0, used - math.max(0, now - since) * rate / 60)
local left = rate - used
if left >= cost then used = used + cost end
redis.call('HSET', KEYS[1], 'used', tostring(used), 'since', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], 120)
return tostring(left)
"""


class RedisRateLimiter(RateLimiter):
    """A token bucket per key in Redis; while Redis fails, one per server.

    `is_degraded` is True from the first failure to the next success. Calls wait for the network.
    """

    is_remote = True

    def __init__(self, per_minute: int, url: str, fall_back: RateLimiter | None = None) -> None:
        super().__init__(per_minute)
        address = parse_redis_address(url)
        if "timeout=" not in url:
            address = replace(address, timeout_s=TIMEOUT_S, connect_timeout_s=TIMEOUT_S)
        self._client = RedisClient(address)
        self._fall_back = fall_back or RateLimiter(per_minute)
        self.is_degraded = False
        self.count_degraded: Callable[[], None] = lambda: None

    def wait_s(self, key: str, cost: float = 1) -> float:
        if not self._per_minute:
            return 0.0
        cost = min(cost, self._per_minute)
        name = f"{self._client.address.prefix}:rate:{quote(key, safe='')}"
        try:
            left = float(self._client.run_script(_TAKE, [name], self._per_minute, cost))
        except Unavailable as error:
            if not self.is_degraded:
                log.warning("rate limits count per server: %s", error)
            self.is_degraded = True
            self.count_degraded()
            return self._fall_back.wait_s(key, cost)
        if self.is_degraded:
            log.warning("rate limits are shared again through %s", self._client.name)
        self.is_degraded = False
        return 0.0 if left >= cost else (cost - left) * 60 / self._per_minute
