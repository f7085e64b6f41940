"""What Linux and Python do for every other part: signals, programs as children. Knows no server."""
