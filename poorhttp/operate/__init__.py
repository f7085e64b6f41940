"""Commands about a server: start, stop, status, reload and the like, and configurations of front servers."""
