"""One process that uses a cache of Django: it fills the cache, looks what is in it, or times each of many operations.

A script, run by the interpreter that has poorhttp: `cache_process.py SETTINGS KEYS fill|look`, or `... work OPERATIONS
RESULTS WARM_UP`. SETTINGS is JSON, an entry of Django's CACHES. OPERATIONS is a file: action, key and repeats of each
operation, in 16 bits each. It prints `ready`, and begins when it has read a line. In the files RESULTS.get, .set and
.delete it leaves the nanoseconds of each operation after the first WARM_UP ones; in RESULTS.seen what each one saw, in
32 bits: of a get a checksum of the value, or 0; of a set 1 if it was refused. Then it prints JSON.
"""

import json
import sys
import time
from array import array
from pathlib import Path
from zlib import crc32

from django.conf import settings

ACTIONS = ("get", "set", "delete")
GET, SET, DELETE = range(len(ACTIONS))
clock = time.perf_counter_ns


def fill(cache, keys):
    for key in map(str, range(keys)):
        cache.set(key, key.encode())


def look(cache, keys):
    found = (cache.get(str(key)) for key in range(keys))
    print(json.dumps([0 if value is None else crc32(value) for value in found]))


def work(cache, path, results, warm_up):
    flat = array("H", Path(path).read_bytes())
    seen = array("I", bytes(4 * (len(flat) // 3)))
    times, misses = [array("q") for _ in ACTIONS], [0 for _ in ACTIONS]
    get, put, delete = cache.get, cache.set, cache.delete
    cost = cost_of_clock()
    print("ready", flush=True)
    sys.stdin.readline()
    began = clock()
    for number, (action, place, repeats) in enumerate(zip(flat[::3], flat[1::3], flat[2::3], strict=True)):
        key, value = str(place), str(number).encode() * repeats
        if action == GET:
            begin = clock()
            result = get(key)
            end = clock()
            missed = result is None
            if not missed:
                seen[number] = crc32(result)
        elif action == SET:
            begin = clock()
            result = put(key, value)
            end = clock()
            missed = result is False
            seen[number] = missed
        else:
            begin = clock()
            result = delete(key)
            end = clock()
            missed = result is False
        if number >= warm_up:
            times[action].append(end - begin)
            misses[action] += missed
    ended = clock()
    for name, numbers in (*zip(ACTIONS, times, strict=True), ("seen", seen)):
        with open(f"{results}.{name}", "wb") as file:
            numbers.tofile(file)
    print(json.dumps({"began": began, "ended": ended, "misses": misses, "clock": cost}))


def cost_of_clock():
    """Nanoseconds between two looks at the clock, the median."""
    differences = sorted(-(clock() - clock()) for _ in range(10_001))
    return differences[len(differences) // 2]


def main():
    cache_settings, keys, command, *rest = sys.argv[1:]
    settings.configure(CACHES={"default": json.loads(cache_settings)})
    from django.core.cache import caches

    cache = caches["default"]
    if command == "work":
        operations, results, warm_up = rest
        work(cache, operations, results, int(warm_up))
    else:
        {"fill": fill, "look": look}[command](cache, int(keys))
    cache.close()


if __name__ == "__main__":
    main()
