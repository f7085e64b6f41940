"""How long listing a directory takes, as the filebased cache of Django does it for each set. Prints JSON: microseconds.

A script: `listing.py DIRECTORY COUNT CALLS`. It makes COUNT files in the directory, which is empty.
"""

import glob
import json
import sys
import timeit
import warnings
from pathlib import Path

from django.conf import settings


def main():
    directory, count, calls = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for number in range(count):
        (directory / f"{number:032x}.djcache").touch()
    options = {"MAX_ENTRIES": sys.maxsize}
    backend = {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": str(directory),
        "OPTIONS": options,
    }
    settings.configure(CACHES={"default": backend})
    from django.core.cache import caches

    cache = caches["default"]
    kinds = {
        "glob": lambda: glob.glob("*.djcache", root_dir=directory),
        "set": lambda: cache.set("key", b"value"),
    }
    if hasattr(glob, "glob1"):
        kinds = {"glob1": lambda: glob.glob1(str(directory), "*.djcache"), **kinds}
    warnings.simplefilter("ignore", DeprecationWarning)  # of glob1, on a Python that is to lose it
    print(json.dumps({name: timeit.timeit(kind, number=calls) / calls * 1e6 for name, kind in kinds.items()}))


if __name__ == "__main__":
    main()
