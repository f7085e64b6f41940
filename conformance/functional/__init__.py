"""Functional tests that others wrote for their own servers, with poorhttp in the place of the server.

`python -m conformance.functional [SUITE ...]` runs them; `archives.txt` pins them, `suites.py` fetches and starts them,
`in_*.py` are the stand-ins, `deviations.py` says where poorhttp differs, and why.
"""
