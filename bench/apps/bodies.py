"""The applications with large bodies; in a module of their own, so that a small answer is not weighed with them."""

from pages import hello

BODY_10K = b"x" * 10_240
BODY_1M = b"x" * 1_048_576


def answer(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def big10k(environ, start_response):
    return answer(start_response, BODY_10K)


def big1m(environ, start_response):
    return answer(start_response, BODY_1M)


def post(environ, start_response):
    """Read the whole request body; a body that is not the expected one gets another answer."""
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    return hello(environ, start_response) if body == BODY_10K else answer(start_response, b"wrong body")
