"""The applications with large bodies; in a module of their own, so that a small answer is not weighed with them."""

import os
import tempfile
from pathlib import Path

from pages import hello

BLOCK = b"x" * 65_536
BODY_10K = b"x" * 10_240
BODY_100K = b"x" * 102_400
BODY_1M = b"x" * 1_048_576
PART = b"x" * 1024
BUILD = Path(__file__).resolve().parents[1] / "build"
FILE = BUILD / "file.txt"


def answer(start_response, body):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def big10k(environ, start_response):
    return answer(start_response, BODY_10K)


def big1m(environ, start_response):
    return answer(start_response, BODY_1M)


def post(environ, start_response):
    """Read the whole request body in blocks; a body that is not the expected one gets another answer."""
    left = int(environ["CONTENT_LENGTH"])
    while left:
        size = min(left, len(BLOCK))
        block = environ["wsgi.input"].read(size)
        if not block or block != BLOCK[: len(block)]:
            return answer(start_response, b"wrong body")
        left -= len(block)
    return hello(environ, start_response)


def stream(environ, start_response):
    """100 blocks of 1 KB by a generator, of a length that is not told."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return (PART for _ in range(100))


def file(environ, start_response):
    """A file of 100 KB by the server's own means; 501 where it has none."""
    if "wsgi.file_wrapper" not in environ:
        start_response("501 Not Implemented", [("Content-Type", "text/plain"), ("Content-Length", "20")])
        return [b"no wsgi.file_wrapper"]
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(BODY_100K)))])
    return environ["wsgi.file_wrapper"](FILE.open("rb"))


def make_file():
    """Replaced as a whole, since another process may be reading it."""
    BUILD.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(dir=BUILD)
    with os.fdopen(handle, "wb") as made:
        made.write(BODY_100K)
    os.chmod(name, 0o644)
    os.replace(name, FILE)


if not FILE.exists():  # a server that may not write there finds it
    make_file()
