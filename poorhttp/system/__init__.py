"""Linux and Python for every other part: signals, programs as children. Knows no server."""
