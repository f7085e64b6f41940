"""The WSGI applications that every server serves: small, fixed answers, so that the server is what is measured."""

import time

HELLO = b"Hello, World!"
BODY_10K = b"x" * 10_240
BODY_1M = b"x" * 1_048_576


def answer(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def hello(environ, start_response):
    return answer(start_response, HELLO)


def big10k(environ, start_response):
    return answer(start_response, BODY_10K)


def big1m(environ, start_response):
    return answer(start_response, BODY_1M)


def sleep10(environ, start_response):
    """Wait 10 ms, as for a database."""
    time.sleep(0.010)
    return answer(start_response, HELLO)


def block(environ, start_response):
    """Hold the thread for a second at /block, answer at once elsewhere."""
    if environ["PATH_INFO"] == "/block":
        time.sleep(1.0)
    return answer(start_response, HELLO)


def post(environ, start_response):
    """Read the whole request body; a body that is not the expected one gets another answer."""
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    return answer(start_response, HELLO if body == BODY_10K else b"wrong body")
