"""The pidfile and the scoreboard of a server, written and read."""
