#!/bin/sh
# DiskCache 5.6.3 (Lock with expire) and dogpile.cache 1.5.0 (distributed_lock with lock_timeout, on memcached 1.6.18):
# a worker that is late releases the lock of the worker after it.
#
# Seen: A takes the lock, works for longer than its expiry, and B takes the lock. Then A releases, which deletes B's
# lock, so that C gets it at once: B and C work together, and each of them goes on to free the next one's lock.
# Expected: A's release does nothing or raises, as that of dogpile.cache on Redis does (redis-py's lock holds a token,
# and raises LockNotOwnedError). An expiry is given for exactly this case, a worker that is too slow or dead.
. "$(dirname "$(realpath "$0")")/lib"
pypi diskcache==5.6.3 dogpile.cache==1.5.0 pymemcache==4.0.0
debian memcached=1.6.18-1+deb12u1
serve 'exec usr/bin/memcached -u nobody -l 127.0.0.1 -p $PORT'
cat >show.py <<'PY'
import os
import threading
import time

from diskcache import Cache, Lock
from dogpile.cache import make_region

cache = Cache("cache")
arguments = {"url": "127.0.0.1:" + os.environ["PORT"], "distributed_lock": True, "lock_timeout": 2}
region = make_region().configure("dogpile.cache.pymemcache", arguments=arguments)
kinds = {
    "DiskCache": [Lock(cache, "report", expire=2) for _ in range(3)],
    "dogpile.cache": [region.backend.get_mutex("report") for _ in range(3)],
}


def is_taken(lock):
    done = threading.Event()
    threading.Thread(target=lambda: lock.acquire() is not False and done.set(), daemon=True).start()
    return done.wait(0.3)


for a, _, _ in kinds.values():
    a.acquire()
time.sleep(3.2)
for name, (a, b, c) in kinds.items():
    print(f"{name}: B takes the lock after the expiry of A's: {is_taken(b)}")
    a.release()
    print(f"{name}: C takes B's lock after A's release: {is_taken(c)}")
os._exit(0)
PY
verdict "DiskCache: B takes the lock after the expiry of A's: True
DiskCache: C takes B's lock after A's release: True
dogpile.cache: B takes the lock after the expiry of A's: True
dogpile.cache: C takes B's lock after A's release: True" "$(python -u show.py 2>&1)"
