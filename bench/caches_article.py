"""The figures that DiskCache's article printed of caches of Django: what it timed, and how long a listing took.

Times are microseconds, totals seconds, but for those of a listing.
"""

from __future__ import annotations

PROCESSES, OPERATIONS, WARM_UP = 8, 100_000, 1001
COUNTS = {"get": 712_546, "set": 71_530, "delete": 7_916}
# Its filebased cache drew from the generator of the workload when it threw files away, so it was asked for others.
COUNTS_OF_FILEBASED = {"get": 712_749, "set": 71_431, "delete": 7_812}

COLUMNS = ("miss", "median", "p90", "p99", "max", "total")
PRINTED: dict[str, dict[str, tuple[float, ...]]] = {
    "locmem": {
        "get": (140_750, 36.001, 57.936, 60.081, 10_202, 28.962),
        "set": (0, 36.955, 39.101, 45.061, 2_784, 2.709),
        "delete": (0, 32.902, 35.048, 37.193, 1_524, 0.265399),
    },
    "memcached": {
        "get": (69_185, 87.023, 99.182, 110.865, 576.973, 61.758),
        "set": (0, 89.169, 102.043, 114.202, 259.876, 6.395),
        "delete": (0, 85.115, 97.990, 108.957, 201.941, 0.672212),
    },
    "redis": {
        "get": (69_526, 160.933, 195.980, 239.134, 1_365, 116.816),
        "set": (0, 166.178, 200.987, 242.949, 587.940, 12.143),
        "delete": (791, 143.051, 177.860, 217.915, 330.925, 1.165),
    },
    "diskcache": {
        "get": (69_509, 33.855, 56.982, 79.155, 11_908, 30.078),
        "set": (0, 178.814, 1_355, 5_032, 26_620, 34.461),
        "delete": (0, 107.050, 1_280, 4_738, 17_217, 3.303),
    },
    "filebased": {
        "get": (103_843, 112.772, 193.119, 423.908, 18_428, 92.428),
        "set": (0, 8_893, 11_742, 14_790, 44_201, 646.879),
        "delete": (0, 223.875, 389.099, 679.016, 15_058, 1.940),
    },
}
PRINTED["pylibmc"] = PRINTED["memcached"]  # which it asked by this library

LISTING_CALLS = 100
"""Calls whose sum the article printed as the time of one."""
LISTING = {1: 1.602, 10: 2.213, 100: 8.946, 1_000: 65.869, 10_000: 604.972, 100_000: 6_450.0}
"""Files -> milliseconds, as printed."""
