"""The numbers that the article of 2010 printed, under the names of this bench's rows and columns. Data only.

A netbook (Atom N270, 1.6 GHz, 2 GB) served page `light`; another machine asked over WLAN with WEP, which the article
calls the bottleneck. Each test took about 60 seconds. Sizes are KiB.
"""

from __future__ import annotations

from collections.abc import Mapping

RATES = ("ans/s", "res/s", "real/s", "ans t", "res t")
SIZES = ("size", "vsize", "4 x size")


def _named(names: tuple[str, ...], rows: Mapping[str, tuple[float, ...]]) -> dict[str, dict[str, float]]:
    return {row: dict(zip(names, values, strict=True)) for row, values in rows.items()}


# fmt: off
PRINTED: dict[str, dict[str, dict[str, float]]] = {
    "serial light": _named(RATES, {
        "single": (183.02, 110.85, 80.49, 0.0054, 0.0090),
        "forking": (59.88, 49.16, 40.26, 0.0166, 0.0203),
        "threading": (154.93, 103.35, 76.14, 0.0064, 0.0096),
        "apache": (184.60, 137.57, 81.01, 0.0054, 0.0072),
        "lighttpd-1": (79.41, 77.52, 57.91, 0.0125, 0.0128),
        "lighttpd-2": (77.03, 74.30, 56.21, 0.0129, 0.0134),
    }),
    # Printed as ans/s, req/s, preq/s, ans t and req t; the article says that they are what they are in the serial test.
    "parallel light": _named(RATES, {
        "single": (9.14, 8.80, 82.95, 0.1093, 0.1135),
        "forking": (5.12, 4.84, 60.76, 0.1950, 0.2065),
        "threading": (6.21, 5.89, 58.80, 0.1608, 0.1696),
        "apache": (4.96, 4.85, 70.79, 0.2014, 0.2060),
        "lighttpd-1": (0.64, 0.64, 79.50, 1.5510, 1.5514),
        "lighttpd-2": (2.88, 2.87, 92.04, 0.3471, 0.3475),
    }),
    "memory": _named(SIZES, {
        "lighttpd": (952, 6196, 952),
        "single": (4160, 10440, 4160),
        "lighttpd-4": (5112, 16636, 17592),
        "forking": (4196, 10476, 41960),
        "threading": (38008, 44288, 38008),
        "apache": (228832, 237156, 917344),
    }),
}
# fmt: on
ENDED_EARLY = ("single", "threading", "lighttpd-1")  # in the parallel test, at 600 requests without an answer
