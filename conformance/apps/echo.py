"""The application under test: answers with what it saw of a request, so that a misreading shows.

Plain PEP 3333; imports nothing of a server. Text is latin-1: a character is a byte. The file that the variable
ECHO_READING names tells how a body is to be read, one of READING; where there is none, or it is empty, by one read().
"""

import itertools
import json
import os


def by_size(read, *sizes):
    """All that `read(size)` gives, with these sizes in turn."""
    for size in itertools.cycle(sizes):
        block = read(size)
        assert len(block) <= size, "more than was asked for"
        if not block:
            break
        yield block


READING = {
    "read": lambda body: [body.read()],
    "read 1": lambda body: by_size(body.read, 1),
    "read sizes": lambda body: by_size(body.read, 2, 4, 1, 3, 700, 4096),
    "readline": lambda body: iter(body.readline, b""),
    "readline sizes": lambda body: by_size(body.readline, 1, 4, 2, 3, 700, 4096),
    "readlines": lambda body: body.readlines(),
    "iteration": list,
}


def read(body, way):
    """The body. Raises AssertionError where lines are none, or where something comes behind the end."""
    blocks = list(READING[way](body))
    if way not in ("read", "read 1", "read sizes"):
        assert not any(b"\n" in block[:-1] for block in blocks), "two lines in one"
    assert body.read(4) == b"" and body.readline() == b"" and list(body) == [] == body.readlines(), "behind the end"
    return b"".join(blocks)


def application(environ, start_response):
    way = ""
    if "ECHO_READING" in os.environ:
        with open(os.environ["ECHO_READING"], encoding="ascii") as file:
            way = file.read()
    stream = environ["wsgi.input"]
    body = read(stream, way) if way else stream.read()
    seen = {
        "method": environ["REQUEST_METHOD"],
        "path": environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""),
        "query": environ.get("QUERY_STRING", ""),
        "fields": {name: environ[name] for name in environ if name.startswith("HTTP_") or name == "CONTENT_TYPE"},
        "body": body.decode("latin-1"),
    }
    answer = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [] if seen["method"] == "HEAD" else [answer]
