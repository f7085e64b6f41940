#!/bin/sh
# DiskCache 5.6.3: a str of 32 KiB or more comes back with other line ends than it was stored with, a shorter one
# unchanged.
#
# Seen: get() gives the value with each "\r\n" and "\r" turned into "\n", so a cached page, CSV or mail is shorter than
# the original and its Content-Length, digest or signature no longer fits. Below 32 KiB (disk_min_file_size) the value
# lies in SQLite and is the same; above, in a file that is read in text mode with universal newlines, on Linux too.
# Expected: the value that was stored, as DiskCache's documentation of Cache.get() has it, whatever its size. (Python's
# open(): newline=None translates line ends on reading.)
. "$(dirname "$(realpath "$0")")/lib"
pypi diskcache==5.6.3
cat >show.py <<'PY'
from diskcache import Cache

with Cache("cache") as cache:
    for size in (30_000, 40_000):
        stored = "a\r\nb\r" * (size // 5)
        cache["page"] = stored
        found = cache["page"]
        print(f"{len(stored)} characters stored, {len(found)} found, the same: {found == stored}")
PY
verdict "30000 characters stored, 30000 found, the same: True
40000 characters stored, 32000 found, the same: False" "$(python show.py 2>&1)"
