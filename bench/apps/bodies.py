"""The applications with large bodies; in a module of their own, so that a small answer is not weighed with them."""

from pages import HELLO, answer

BODY_10K = b"x" * 10_240
BODY_1M = b"x" * 1_048_576


def big10k(environ, start_response):
    return answer(start_response, BODY_10K)


def big1m(environ, start_response):
    return answer(start_response, BODY_1M)


def post(environ, start_response):
    """Read the whole request body; a body that is not the expected one gets another answer."""
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    return answer(start_response, HELLO if body == BODY_10K else b"wrong body")
