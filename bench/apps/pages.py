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


def compute(environ, start_response):
    """A millisecond of plain Python, more or less: always the same work."""
    work(1)
    return hello(environ, start_response)


def mixed(environ, start_response):
    """20 ms of plain Python at /long, an answer at once elsewhere."""
    if environ["PATH_INFO"] == "/long":
        work(20)
    return hello(environ, start_response)


def work(milliseconds):
    total = 0
    for number in range(25_000 * milliseconds):
        total += number * number % 7
    return total
