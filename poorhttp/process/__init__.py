"""Serving: the start of a server, its supervisor and its workers."""
