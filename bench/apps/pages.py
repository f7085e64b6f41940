"""The WSGI applications that every server serves: small, fixed answers, so that the server is what is measured."""

import time


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "13")])
    return [b"Hello, World!"]


def sleep10(environ, start_response):
    """Wait 10 ms, as for a database."""
    time.sleep(0.010)
    return hello(environ, start_response)


def block(environ, start_response):
    """Hold the thread for a second at /block, answer at once elsewhere."""
    if environ["PATH_INFO"] == "/block":
        time.sleep(1.0)
    return hello(environ, start_response)
