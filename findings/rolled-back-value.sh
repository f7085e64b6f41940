#!/bin/sh
# DiskCache 5.6.3: a transaction that is rolled back destroys the value that was there before it.
#
# Seen: in `with cache.transact():` a value of 100 KB is replaced, or deleted, and then an exception is raised. After it
# the key is in the cache and get() gives None: the row of SQLite was rolled back, but the file with the old value had
# been removed at once. A value of 100 bytes, which lies in SQLite itself, is there as before.
# Expected: the old value, whatever its size. DiskCache's documentation of Cache.transact(): read and write operations
# performed in a transaction are atomic.
. "$(dirname "$(realpath "$0")")/lib"
pypi diskcache==5.6.3
cat >show.py <<'PY'
from diskcache import Cache


def replace(cache):
    cache["cart"] = b"new" * 50_000


def delete(cache):
    del cache["cart"]


with Cache("cache") as cache:
    for size in (100, 100_000):
        for change in (replace, delete):
            cache["cart"] = b"x" * size
            try:
                with cache.transact():
                    change(cache)
                    raise KeyError("the application failed")
            except KeyError:
                found = cache.get("cart")
            kept = "nothing" if found is None else f"{len(found)} bytes"
            print(f"{change.__name__} {size} bytes, roll back: key there: {'cart' in cache}, value: {kept}")
PY
verdict "replace 100 bytes, roll back: key there: True, value: 100 bytes
delete 100 bytes, roll back: key there: True, value: 100 bytes
replace 100000 bytes, roll back: key there: True, value: nothing
delete 100000 bytes, roll back: key there: True, value: nothing" "$(python show.py 2>&1)"
