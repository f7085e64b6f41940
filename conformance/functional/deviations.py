"""Where poorhttp differs from what the suites of other servers expect: every test, and the reason.

Data only; `judge.py` holds the tests to it. Contract: a test that is named with `fails` runs, and must fail with these
words, so that all it asserted before has held; one without is not run, because it never reaches an answer of the server
(it looks into an object of the other server) or could not end. Names are node ids without directories; * is anything.
"""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """reason: why poorhttp is right, or what is wrong with it. fails: pattern of the failure; "": not run."""

    reason: str
    tests: tuple[str, ...]
    fails: str = ""


ADAPTATIONS = {
    "waitress": (
        "A request of HTTP/1.1 without Host gets `Host: localhost` on its way: it would be refused (RFC 9112 3.2).",
        "The version in the status line is expected to be HTTP/1.1 for requests of HTTP/1.0 too: it tells what the"
        " server speaks (RFC 9110 2.5); waitress repeats that of the request.",
        "413 is expected to be called Content Too Large (RFC 9110 15.5.14), not by its name of 1999.",
        "Server is set to waitress. REMOTE_HOST, optional in CGI, and a middleware for X-Forwarded are put around the"
        " application.",
        "keepalive_timeout is 1 s: a test that reads to the end of the connection after a chunked answer waits for it;"
        " waitress closes there, poorhttp goes on (RFC 9112 9.3).",
    ),
    "cheroot": (
        "Listens on the loopback where the tests ask for every address.",
        "Settings that tests change on the running server (max_request_body_size, timeout) start an engine anew on the"
        " same listeners.",
    ),
    "cherrypy": ("As for cheroot; and the port is any free one, not 54583.",),
    "django": (
        "Each thread of the engine gets the database connections that the test case shares with its server thread, and"
        " closes its own after each answer, as the threads of Django's server do.",
    ),
}
"""What the stand-ins change in a suite, so that the rest of a test says something about poorhttp."""

ERROR_WORDS = "The words of an error page are a server's own; the status before them is asserted and right."
UPPER_CASE = (
    "The test wants `Keep-Alive`, letter by letter; connection options are case-insensitive (RFC 9110 7.6.1), poorhttp"
    " writes them as RFC 9112 does."
)

WAITRESS = (
    Deviation(
        "Error pages are html here; 400, Content-Length and the very set of fields are asserted before and right.",
        ("test_functional.py::*EchoTests::test_broken_chunked_encoding",),
        fails="'text/html; charset=utf-8' != 'text/plain; charset=utf-8'",
    ),
    Deviation(
        ERROR_WORDS,
        (
            "test_functional.py::*EchoTests::test_broken_chunked_encoding_invalid_hex",
            "test_functional.py::*EchoTests::test_broken_chunked_encoding_missing_chunk_end",
        ),
        fails="b'(Invalid chunk size|Chunk not properly terminated)' not found in b'<!DOCTYPE html>.*400 - Bad Request",
    ),
    Deviation(
        "The words of the 500 page are a server's own; the status and a true Content-Length are asserted before.",
        (
            "test_functional.py::*InternalServerErrorTests::test_before_start_response_http_1*",
            "test_functional.py::*InternalServerErrorTests::test_after_start_response_http1*",
            "test_functional.py::*InternalServerErrorTestsWithTraceback::test_expose_tracebacks_http_1*",
        ),
        fails=r"response_body\.startswith\(b\"Internal Server Error\"\)\)\nE +AssertionError: False is not true",
    ),
    Deviation(
        "DEFECT of poorhttp: the grammar of chunk extensions is not checked (RFC 9112 7.1.1), `20;invalid=` is taken"
        " and more of the body awaited.",
        ("test_functional.py::*EchoTests::test_broken_chunked_encoding_invalid_extension",),
    ),
    Deviation(
        UPPER_CASE,
        (
            "test_functional.py::*EchoTests::test_keepalive_http10_explicit",
            "test_functional.py::*NoContentLengthTests::test_http10_list",
        ),
        fails="'keep-alive' != 'Keep-Alive'",
    ),
    Deviation(
        "The body comes with the head: then 100 may be left out (RFC 9110 10.1.1), and is.",
        ("test_functional.py::*ExpectContinueTests::test_expect_continue",),
        fails="200 != 100",
    ),
    Deviation(
        "A list of two blocks is complete in memory, so its length is told and the connection goes on; waitress does"
        " so for one block only. PEP 3333 leaves it to the server.",
        ("test_functional.py::*NoContentLengthTests::test_http10_listlentwo",),
        fails="'52' is not None",
    ),
    Deviation(
        "The same: with Content-Length instead of chunks.",
        ("test_functional.py::*NoContentLengthTests::test_http11_listlentwo",),
        fails=r"b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ' != b'1\\r\\na\\r\\n33",
    ),
    Deviation(
        "Digits of a chunk size are of either case (RFC 9112 7.1); the test wants `A`, here it is `a`.",
        ("test_functional.py::*NoContentLengthTests::test_http11_generator",),
        fails=r"b'a\\r\\nabcdefghij\\r\\na\\r.*' != b'A\\r\\nabcdefghij\\r\\nA\\r",
    ),
    Deviation(
        "No chunk of the test ends with CRLF, so the body is malformed before it is too large (RFC 9112 7.1): 400."
        " waitress counts first.",
        ("test_functional.py::*TooLargeTests::test_request_body_too_large_chunked_encoding",),
        fails="b'400' != b'413'",
    ),
    Deviation(
        "The application gives text where PEP 3333 wants bytes, before anything was sent: 500, because the head may"
        " not be sent before the first bytes. waitress has sent 200 with nothing behind it.",
        (
            "test_functional.py::*InternalServerErrorTests::test_after_write_cb",
            "test_functional.py::*InternalServerErrorTests::test_in_generator",
        ),
        fails="b'500' != b'200'",
    ),
    Deviation(
        "The application declares ten bytes more than its file has; its header is not rewritten to fit, the answer"
        " breaks off and the client sees that it is incomplete (RFC 9112 8).",
        ("test_functional.py::*FileWrapperTests::test_filelike_longcl_http11",),
        fails="45458 != 45448",
    ),
)

CHEROOT: tuple[Deviation, ...] = ()
CHERRYPY: tuple[Deviation, ...] = ()
DJANGO: tuple[Deviation, ...] = ()

DEVIATIONS: dict[str, tuple[Deviation, ...]] = {
    "waitress": WAITRESS,
    "cheroot": CHEROOT,
    "cherrypy": CHERRYPY,
    "django": DJANGO,
}
