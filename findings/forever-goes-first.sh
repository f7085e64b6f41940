#!/bin/sh
# cachelib 0.17.0, SimpleCache and FileSystemCache (also by Flask-Session 0.8.0): what was stored for ever is removed
# first.
#
# Seen: a value with timeout=0 (never expires), and values with a timeout of a minute, one more than `threshold` allows:
# the first that goes is the one that should never expire. It is taken for the one that expires soonest, at 0.
# Expected: it goes last. cachelib's documentation: a timeout of 0 indicates that the cache never expires, and when the
# threshold is reached, older items are removed; its code orders them by the time of their expiry.
. "$(dirname "$(realpath "$0")")/lib"
pypi cachelib==0.17.0
cat >show.py <<'PY'
from cachelib import FileSystemCache, SimpleCache

for cache in (SimpleCache(threshold=10), FileSystemCache("files", threshold=10)):
    for number in range(9):
        cache.set(f"minute {number}", "value", timeout=60)
    cache.set("for ever", "value", timeout=0)
    before = cache.get("for ever")
    for number in range(9, 12):
        cache.set(f"minute {number}", "value", timeout=60)
    minutes = sum(cache.has(f"minute {number}") for number in range(12))
    print(f"{type(cache).__name__}: for ever: {before}, then {cache.get('for ever')}; of a minute: {minutes} of 12")
PY
verdict "SimpleCache: for ever: value, then None; of a minute: 11 of 12
FileSystemCache: for ever: value, then None; of a minute: 11 of 12" "$(python show.py 2>&1)"
