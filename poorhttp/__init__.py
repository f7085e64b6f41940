"""poorhttp: a minimal WSGI HTTP server."""

__version__ = "2.0.0a1"
