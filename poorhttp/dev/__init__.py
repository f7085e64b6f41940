"""Serving while the program is being written: autoreload, and pages that show what went wrong.

Knows everything else of the server; nothing else knows it, but for `cli` and `server`, which import it where
`autoreload` or `debug` is on. Contract: a server in production has not imported any of it.
"""
