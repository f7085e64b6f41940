#!/bin/sh
# dogpile.cache 1.5.0 (cache_on_arguments), Beaker 1.14.1 (cache) and cashews 7.6.0: a cached function gives the value
# of a call with other arguments.
#
# Seen: salary("Mary Ann", "Lee") and salary("Mary", "Ann Lee") share one entry in dogpile.cache and Beaker, for the key
# is made of the arguments as text with blanks between them. In all three a call with the text "1" gets the value of the
# call with the number 1, and in dogpile.cache and Beaker "None" that of None.
# Expected: the function is called for each of them, as DiskCache's memoize() and Flask-Caching's do, which keep the
# arguments apart and by type, or functools.lru_cache. Names and search terms with blanks are the usual arguments.
. "$(dirname "$(realpath "$0")")/lib"
pypi dogpile.cache==1.5.0 Beaker==1.14.1 cashews==7.6.0 diskcache==5.6.3
cat >show.py <<'PY'
import asyncio

from beaker.cache import CacheManager
from cashews import cache as cashews
from diskcache import Cache
from dogpile.cache import make_region

CALLS = {
    "blank": [("Mary Ann", "Lee"), ("Mary", "Ann Lee")],
    "number": [(1, 2), ("1", "2")],
    "None": [(None, "x"), ("None", "x")],
}


def salary(first, last):
    return first, last


async def salary_later(first, last):
    return first, last


cashews.setup("mem://")
later = cashews(ttl="1m")(salary_later)
functions = {
    "dogpile.cache": make_region().configure("dogpile.cache.memory").cache_on_arguments()(salary),
    "Beaker": CacheManager(type="memory").cache("salary", expire=60)(salary),
    "cashews": lambda *names: asyncio.run(later(*names)),
    "DiskCache": Cache("disk").memoize()(salary),
}
for name, function in functions.items():
    wrong = []
    for what, calls in CALLS.items():
        for call in calls:
            if function(*call) != call:
                wrong.append(what)
    print(f"{name}: the value of another call: {', '.join(wrong) or 'never'}")
PY
verdict "dogpile.cache: the value of another call: blank, number, None
Beaker: the value of another call: blank, number, None
cashews: the value of another call: number
DiskCache: the value of another call: never" "$(python show.py 2>&1)"
