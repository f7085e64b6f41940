#!/bin/sh
# weft-server 0.1.1: the wheel that PyPI offers to CPython 3.11 cannot be imported by any CPython 3.11.
#
# Seen: pip installs the wheel tagged cp311, then `import weft` (and so the command `weft`) ends with "undefined
# symbol: _PyVectorcall_Call". CPython 3.11 exports PyVectorcall_Call; the name with the underscore is a static
# function in it.
# Expected: an import. The tag cp311-cp311 says that the binary fits CPython 3.11 (PyPA specifications, "Platform
# compatibility tags"), and the package's metadata say Requires-Python: >=3.10.
. "$(dirname "$(realpath "$0")")/lib"
[ "$("${PYTHON:-python3}" -c 'import sys; print(*sys.version_info[:2])')" = "3 11" ] || unavailable "needs CPython 3.11 (set PYTHON)"
pypi weft-server==0.1.1
verdict "ImportError: undefined symbol: _PyVectorcall_Call" \
    "$(python -c 'import weft' 2>&1 | tail -1 | sed 's/: [^ ]*\.so:/:/')"
