"""What a server shows of itself: its pidfile and its scoreboard, written and read."""
