#!/bin/sh
# limits 5.8.0 (also under Flask-Limiter 4.1.1) with memcached 1.6.18: a limit for more than 30 days is never enforced,
# and with the sliding window none for more than 15 days.
#
# Seen: of a limit "2 per 2 months" ten of ten hits are allowed, and with SlidingWindowCounterRateLimiter also of
# "2 per 20 days", where the key is stored for twice the window. limits gives memcached the seconds as they are, and
# memcached takes more than 30 days for a date in 1970: the counter has expired when it is stored. aiocache 0.12.3
# says True to set(..., ttl=40 days) and has no value afterwards.
# Expected: 2 of 10, as with limits' storage in memory. memcached's protocol.txt: an expiry is a Unix time, or a number
# of seconds that may not exceed 60*60*24*30; so a client has to add the current time to a longer one.
. "$(dirname "$(realpath "$0")")/lib"
pypi limits==5.8.0 pymemcache==4.0.0 aiocache==0.12.3 aiomcache==0.8.2
debian memcached=1.6.18-1+deb12u1
serve 'exec usr/bin/memcached -u nobody -l 127.0.0.1 -p $PORT'
cat >show.py <<'PY'
import asyncio
import os

from aiocache import Cache
from limits import parse, storage, strategies

PORT = int(os.environ["PORT"])
for place in ("memory://", f"memcached://127.0.0.1:{PORT}"):
    for kind in (strategies.FixedWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter):
        limiter = kind(storage.storage_from_string(place))
        for text in ("2 per 10 days", "2 per 20 days", "2 per 2 months"):
            allowed = sum(limiter.hit(parse(text), kind.__name__) for _ in range(10))
            print(f"{place.partition(':')[0]}, {kind.__name__}: {text}: {allowed} of 10 allowed")


async def cached():
    cache = Cache(Cache.MEMCACHED, endpoint="127.0.0.1", port=PORT)
    for days in (30, 40):
        is_set = await cache.set("key", "value", ttl=days * 86400)
        print(f"aiocache, {days} days: set {is_set}, {await cache.get('key')}")
    await cache.close()


asyncio.run(cached())
PY
verdict "memory, FixedWindowRateLimiter: 2 per 10 days: 2 of 10 allowed
memory, FixedWindowRateLimiter: 2 per 20 days: 2 of 10 allowed
memory, FixedWindowRateLimiter: 2 per 2 months: 2 of 10 allowed
memory, SlidingWindowCounterRateLimiter: 2 per 10 days: 2 of 10 allowed
memory, SlidingWindowCounterRateLimiter: 2 per 20 days: 2 of 10 allowed
memory, SlidingWindowCounterRateLimiter: 2 per 2 months: 2 of 10 allowed
memcached, FixedWindowRateLimiter: 2 per 10 days: 2 of 10 allowed
memcached, FixedWindowRateLimiter: 2 per 20 days: 2 of 10 allowed
memcached, FixedWindowRateLimiter: 2 per 2 months: 10 of 10 allowed
memcached, SlidingWindowCounterRateLimiter: 2 per 10 days: 2 of 10 allowed
memcached, SlidingWindowCounterRateLimiter: 2 per 20 days: 10 of 10 allowed
memcached, SlidingWindowCounterRateLimiter: 2 per 2 months: 10 of 10 allowed
aiocache, 30 days: set True, value
aiocache, 40 days: set True, None" "$(python show.py 2>&1)"
