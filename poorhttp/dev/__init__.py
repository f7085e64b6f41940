"""Serving while the program is being written: autoreload, and pages that show errors.

Knows the whole server. Only `cli` and `process.server` know it, and import it if `autoreload` or `debug` is on.
Contract: a server in production has imported none of it.
"""
