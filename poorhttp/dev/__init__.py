"""Serving while the program is being written: autoreload, and pages that show errors. A server in production imports
none of it.
"""
