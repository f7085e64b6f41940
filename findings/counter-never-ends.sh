#!/bin/sh
# cachelib 0.17.0, SimpleCache and FileSystemCache (also by Flask-Caching 2.5.1): inc() gives a counter a new time-out.
#
# Seen: a counter is set with timeout=1 and incremented once. After 2.1 s it is still there: inc() stores it with the
# default of the cache (300 s, or for ever with default_timeout=0), and does so each time, so that a counter that is in
# use never ends. RedisCache, with the same interface, keeps the time that was set.
# Expected: the counter ends after 1 s on each backend. A limit of "5 attempts in a minute" that is counted with set()
# and inc() holds in production on Redis, and locks users out for longer wherever one of the other two is used.
. "$(dirname "$(realpath "$0")")/lib"
pypi cachelib==0.17.0 redis==8.1.0
debian redis-tools=5:7.0.15-1~deb12u10 redis-server=5:7.0.15-1~deb12u10
serve 'exec usr/bin/redis-server --port $PORT --bind 127.0.0.1 --save ""'
cat >show.py <<'PY'
import os
import time

from cachelib import FileSystemCache, RedisCache, SimpleCache

caches = [SimpleCache(), FileSystemCache("files"), RedisCache(port=int(os.environ["PORT"]))]
for cache in caches:
    cache.set("attempts", 1, timeout=1)
    cache.inc("attempts")
time.sleep(2.1)
for cache in caches:
    print(f"{type(cache).__name__}: after 2.1 s: {cache.get('attempts')}")
PY
verdict "SimpleCache: after 2.1 s: 2
FileSystemCache: after 2.1 s: 2
RedisCache: after 2.1 s: None" "$(python show.py 2>&1)"
