"""The WSGI applications that every server serves: small, fixed answers, so that the server is what is measured."""

import time

HELLO = b"Hello, World!"


def answer(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def hello(environ, start_response):
    return answer(start_response, HELLO)


def sleep10(environ, start_response):
    """Wait 10 ms, as for a database."""
    time.sleep(0.010)
    return answer(start_response, HELLO)


def block(environ, start_response):
    """Hold the thread for a second at /block, answer at once elsewhere."""
    if environ["PATH_INFO"] == "/block":
        time.sleep(1.0)
    return answer(start_response, HELLO)
