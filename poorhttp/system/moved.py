"""A script, not a module: `moved.py DIRECTORY PROGRAM ARGUMENTS` executes the program in the directory.

Knows nothing of the rest, and imports nothing but what is part of the interpreter: it is run without the site-packages,
before anything of the program's.
"""

import posix
import sys

if __name__ == "__main__":
    posix.chdir(sys.argv[1])
    posix.execv(sys.argv[2], sys.argv[2:])
