"""Where poorhttp differs from what the suites of other servers expect: every test, and the reason.

Data only; `judge.py` holds the tests to it. Contract: a test that is named with `fails` runs, and must fail with these
words, so that all it asserted before has held; one without is not run, because it never reaches an answer of the server
(it looks into an object of the other server) or could not end. Names are node ids with one directory, as patterns of
fnmatch.
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
        " server speaks (RFC 9110 6.2); waitress repeats that of the request.",
        "413 is expected to be called Content Too Large (RFC 9110 15.5.14), not by its name of 1999.",
        "Server is set to waitress. REMOTE_HOST, optional in CGI, and a middleware for X-Forwarded are put around the"
        " application.",
        "body_timeout is 1 s, so that a test which waits for an answer in vain ends.",
        "keepalive_timeout is 1 s: a test that reads to the end of the connection after a chunked answer waits for it;"
        " waitress closes there, poorhttp goes on (RFC 9112 9.3).",
    ),
    "cheroot": (
        "Listens on the loopback where the tests ask for every address.",
        "Values of fields are compared without regard to case: the tests want `Keep-Alive`, but connection options are"
        " case-insensitive (RFC 9110 7.6.1).",
        "The tests' application gives its headers as a view of a dict; it gets through as a list (PEP 3333).",
        "Settings that tests change on the running server (max_request_body_size, timeout) start an engine anew on the"
        " same listeners.",
    ),
    "cherrypy": (
        "As for cheroot; and the port is any free one, not 54583.",
        "For what is compressed it is always the same second: a test compares two results byte for byte, of which each"
        " names its second.",
    ),
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
BROKEN_OFF = (
    "The answer breaks off before its announced end. The test wants an orderly end of the connection there; poorhttp"
    " resets it behind what was given, since lighttpd takes an orderly end for that of the answer (RFC 9112 8)."
)

WAITRESS = (
    Deviation(
        "Error pages are html here; 400, Content-Length and the very set of fields are asserted before and right.",
        ("tests/test_functional.py::*EchoTests::test_broken_chunked_encoding",),
        fails="'text/html; charset=utf-8' != 'text/plain; charset=utf-8'",
    ),
    Deviation(
        ERROR_WORDS,
        (
            "tests/test_functional.py::*EchoTests::test_broken_chunked_encoding_invalid_hex",
            "tests/test_functional.py::*EchoTests::test_broken_chunked_encoding_missing_chunk_end",
        ),
        fails="b'(Invalid chunk size|Chunk not properly terminated)' not found in b'<!DOCTYPE html>.*400 - Bad Request",
    ),
    Deviation(
        "The words of the 500 page are a server's own; the status and a true Content-Length are asserted before.",
        (
            "tests/test_functional.py::*InternalServerErrorTests::test_before_start_response_http_1*",
            "tests/test_functional.py::*InternalServerErrorTests::test_after_start_response_http1*",
            "tests/test_functional.py::*InternalServerErrorTestsWithTraceback::test_expose_tracebacks_http_1*",
        ),
        fails=r"response_body\.startswith\(b\"Internal Server Error\"\)\)\nE +AssertionError: False is not true",
    ),
    Deviation(
        "The words of a refusal are the server's own.",
        ("tests/test_functional.py::*EchoTests::test_broken_chunked_encoding_invalid_extension",),
        fails="b'Invalid chunk extension' not found in",
    ),
    Deviation(
        UPPER_CASE,
        (
            "tests/test_functional.py::*EchoTests::test_keepalive_http10_explicit",
            "tests/test_functional.py::*NoContentLengthTests::test_http10_list",
        ),
        fails="'keep-alive' != 'Keep-Alive'",
    ),
    Deviation(
        "The body comes with the head: then 100 may be left out (RFC 9110 10.1.1), and is.",
        ("tests/test_functional.py::*ExpectContinueTests::test_expect_continue",),
        fails="200 != 100",
    ),
    Deviation(
        "A list of two blocks is complete in memory, so its length is told and the connection goes on; waitress does"
        " so for one block only. PEP 3333 leaves it to the server.",
        ("tests/test_functional.py::*NoContentLengthTests::test_http10_listlentwo",),
        fails="'52' is not None",
    ),
    Deviation(
        "The same: with Content-Length instead of chunks.",
        ("tests/test_functional.py::*NoContentLengthTests::test_http11_listlentwo",),
        fails=r"b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ' != b'1\\r\\na\\r\\n33",
    ),
    Deviation(
        "Digits of a chunk size are of either case (RFC 9112 7.1); the test wants `A`, here it is `a`.",
        ("tests/test_functional.py::*NoContentLengthTests::test_http11_generator",),
        fails=r"b'a\\r\\nabcdefghij\\r\\na\\r.*' != b'A\\r\\nabcdefghij\\r\\nA\\r",
    ),
    Deviation(
        "No chunk of the test ends with CRLF, so the body is malformed before it is too large (RFC 9112 7.1): 400."
        " waitress counts first.",
        ("tests/test_functional.py::*TooLargeTests::test_request_body_too_large_chunked_encoding",),
        fails="b'400' != b'413'",
    ),
    Deviation(
        "The application gives text where PEP 3333 wants bytes, before anything was sent: 500, because the head may"
        " not be sent before the first bytes. waitress has sent 200 with nothing behind it.",
        (
            "tests/test_functional.py::*InternalServerErrorTests::test_after_write_cb",
            "tests/test_functional.py::*InternalServerErrorTests::test_in_generator",
        ),
        fails="b'500' != b'200'",
    ),
    Deviation(
        "The application declares ten bytes more than its file has; its header is not rewritten to fit, the answer"
        " breaks off and the client sees that it is incomplete (RFC 9112 8).",
        ("tests/test_functional.py::UnixFileWrapperTests::test_filelike_longcl_http11",),
        fails="45458 != 45448",
    ),
    Deviation(
        BROKEN_OFF,
        (
            "tests/test_functional.py::TcpFileWrapperTests::test_filelike_longcl_http11",
            "tests/test_functional.py::TcpFileWrapperTests::test_notfilelike_longcl_http11",
            "tests/test_functional.py::TcpWriteCallbackTests::test_short_body",
        ),
        fails="ConnectionResetError",
    ),
)

CHEROOT = (
    Deviation(
        "Looks into the insides of cheroot's server: its selector, its connection and request classes, its threads.",
        (
            "test/test_conn.py::test_broken_connection_during_tcp_fin*",
            "test/test_conn.py::test_broken_connection_during_http_communication_fallback",
            "test/test_conn.py::test_unhandled_exception_in_request_handler",
            "test/test_conn.py::test_remains_alive_post_unhandled_exception",
            "test/test_conn.py::test_invalid_selected_connection",
            "test/test_core.py::test_send_header_before_closing",
            "test/test_wsgi.py::test_gateway_*",
        ),
    ),
    Deviation(
        "KeyboardInterrupt raised by an application stops cheroot; nothing that an application does stops poorhttp.",
        ("test/test_conn.py::test_kb_int_from_http_handler",),
    ),
    Deviation(
        "The test's application gives a list of ten blocks, which is complete in memory: its length is told; cheroot"
        " does so for one block only.",
        ("test/test_conn.py::test_streaming_11[False]", "test/test_conn.py::test_streaming_10[False]"),
        fails=r"assert not True.*header_exists\('Content-Length'.*\('Content-Length', '10'\)",
    ),
    Deviation(
        "`Keep-Alive: timeout=` is no field of a standard; the test wants it.",
        ("test/test_conn.py::test_keepalive_conn_management",),
        fails=r"header_has_value\('Keep-Alive', 'timeout=3'",
    ),
    Deviation(
        "The last answer on a connection says close on HTTP/1.0 too (RFC 9112 9.6, SHOULD); cheroot says nothing.",
        ("test/test_conn.py::test_keepalive[[]*",),
        fails=r"assert not True.*header_exists\('Connection', .*\('Connection', 'close'\)",
    ),
    Deviation(
        "A connection on which nothing was ever asked is idle, and closed without a word (RFC 9112 9.5); there is no"
        " request that a 408 could answer.",
        ("test/test_conn.py::test_HTTP11_Timeout[True]",),
        fails="RemoteDisconnected: Remote end closed connection without response",
    ),
    Deviation(
        "The test sends `GET /hello HTTP/1.1Host: ...` without CRLF: wrong at that byte, so 400 at once, no 408 later.",
        ("test/test_conn.py::test_HTTP11_Timeout[False]",),
        fails="assert 400 == 408",
    ),
    Deviation(
        ERROR_WORDS,
        (
            "test/test_conn.py::test_Content_Length_in",
            "test/test_conn.py::test_Content_Length_not_int",
            "test/test_conn.py::test_No_CRLF*",
            "test/test_core.py::test_parse_uri_invalid_uri",
            "test/test_core.py::test_parse_no_leading_slash_invalid*",
            "test/test_core.py::test_parse_uri_fragment_uri",
            "test/test_core.py::test_malformed_request_line[[]GET /-*",
            "test/test_core.py::test_malformed_request_line[[]GET / HTTPS/1.1-*",
            "test/test_core.py::test_malformed_request_line[[]GET / HTTP/1-*",
            "test/test_core.py::test_malformed_header",
            "test/test_core.py::test_garbage_in",
        ),
        fails=r"assert b'<!DOCTYPE .* == b'|b'starting with a slash' in b'<!DOCTYPE html>",
    ),
    Deviation(
        "An application that gives more than its Content-Length: what it declared is sent and the rest refused;"
        " cheroot makes it a 500 where it sees it before the head is out, and does the same as poorhttp afterwards.",
        ("test/test_conn.py::test_Content_Length_out[[]/wrong_cl_buffered*",),
        fails="assert 200 == 500",
    ),
    Deviation(
        "CONNECT is 501: the server does not tunnel (RFC 9110 9.3.6, 15.6.2).",
        ("test/test_core.py::test_http_connect_request",),
        fails="assert 501 == 405",
    ),
    Deviation(
        "The request has no Host: 400 on HTTP/1.1 (RFC 9112 3.2).",
        ("test/test_core.py::test_parse_uri_unsafe_uri",),
        fails="assert 400 == 200",
    ),
    Deviation(
        "A server MUST accept the absolute form (RFC 9112 3.2.2): the application was asked, and has no such page.",
        ("test/test_core.py::test_parse_uri_absolute_uri",),
        fails="assert 404 == 400",
    ),
    Deviation(
        "OPTIONS * is about the server (RFC 9110 9.3.7), which answers itself.",
        ("test/test_core.py::test_parse_uri_asterisk_uri",),
        fails="assert 204 == 200",
    ),
    Deviation(
        "The words of a refusal are the server's own.",
        ("test/test_core.py::test_malformed_request_line[[]GET / HTTP/2.15-*",),
        fails="== b'Cannot fulfill request'",
    ),
    Deviation(
        "A method is any token and case-sensitive (RFC 9110 9.1): `GeT` is the application's to refuse.",
        ("test/test_core.py::test_malformed_http_method",),
        fails="assert 404 == 400",
    ),
)

CHERRYPY = (
    Deviation(
        BROKEN_OFF,
        (
            "test/test_encoding.py::EncodingTests::testGzip",
            "test/test_request_obj.py::RequestObjectTests::testErrorHandling",
            "test/test_tools.py::ToolTests::testHookErrors",
        ),
        fails="ConnectionResetError",
    ),
    Deviation(
        UPPER_CASE,
        ("test/test_conn.py::ConnectionCloseTests::test_HTTP10_KeepAlive",),
        fails="'Connection':'Keep-Alive' not in headers",
    ),
    Deviation(
        "As in cheroot: a connection on which nothing was asked is closed without a word.",
        ("test/test_conn.py::PipelineTests::test_HTTP11_Timeout",),
        fails="RemoteDisconnected: Remote end closed connection without response",
    ),
    Deviation(
        "Content-Length beside Transfer-Encoding is 400 (RFC 9112 6.1); by RFC 2616 it was to be ignored.",
        ("test/test_conn.py::ConnectionTests::test_Chunked_Encoding",),
        fails="Status 400 Bad Request does not match 200 OK",
    ),
    Deviation(
        ERROR_WORDS,
        (
            "test/test_conn.py::ConnectionTests::test_Content_Length_in",
            "test/test_conn.py::BadRequestTests::test_No_CRLF",
            "test/test_http.py::HTTPTests::test_garbage_in",
            "test/test_http.py::HTTPTests::test_malformed_header",
            "test/test_http.py::HTTPTests::test_malformed_request_line",
            "test/test_request_obj.py::RequestObjectTests::testParamErrors",
        ),
        fails=r"actual body:.*<!DOCTYPE html>|b'<!DOCTYPE html>\\n<html ' != b'Mal|b'Invalid path.*400 - Bad Request",
    ),
    Deviation(
        "As in cheroot: an application that gives more than its Content-Length gets the declared part through.",
        ("test/test_conn.py::ConnectionTests::test_Content_Length_out_preheaders",),
        fails="Status 200 OK does not match 500",
    ),
    Deviation(
        "cheroot gives each slow request one of its threads and turns others away; here slow clients cost no thread.",
        ("test/test_conn.py::LimitedRequestQueueTests::test_queue_full",),
        fails="Overflow conn did not get RST",
    ),
    Deviation(
        "Wants the port to be 0 again after a stop; the socket that stands in for that of cheroot still tells it.",
        ("test/test_core.py::TestBinding::test_bind_ephemeral_port",),
        fails="At index 1 diff: 0 != ",
    ),
    Deviation(
        "PATH_INFO is decoded, %2F too (RFC 3875 4.1.5); cheroot leaves %2F as it is. REQUEST_URI has what was sent.",
        ("test/test_objectmapping.py::ObjectMappingTest::testObjectMapping",),
        fails=r"b\"default:\('page/name',\)\".*actual body:.*default:\('page', 'name'\)",
    ),
    Deviation(
        "CONNECT is 501: the server does not tunnel (RFC 9110 9.3.6); CherryPy's test maps it to an application.",
        (
            "test/test_request_obj.py::RequestObjectTests::test_CONNECT_method",
            "test/test_request_obj.py::RequestObjectTests::test_CONNECT_method_invalid_authority",
        ),
        fails="501 != (204|400)",
    ),
    Deviation(
        "`=?iso-8859-1?q?foo=0Abar?=` is no host (RFC 3986 3.2.2): 400.",
        ("test/test_request_obj.py::RequestObjectTests::test_dangerous_host",),
        fails=r"expected body:.*b'foobar'.*actual body:.*400 - Bad Request",
    ),
    Deviation(
        "Repeated fields are joined by a comma, cheroot adds a space: the same list (RFC 9110 5.3).",
        ("test/test_request_obj.py::RequestObjectTests::test_repeated_headers",),
        fails=r"b'iso-8859-5, unicode-1-1;q=0.8'.*actual body:.*b'iso-8859-5,unicode-1-1;q=0.8'",
    ),
    Deviation(
        "A NUL in the request target is 400 before any application is asked (RFC 9112 3.2).",
        ("test/test_static.py::StaticTest::test_null_bytes",),
        fails="Status 400 Bad Request does not match 404 Not Found",
    ),
    Deviation(
        "Needs memcached and a fixture of a plugin that starts it; not about the server.",
        ("test/test_session.py::MemcachedSessionTest::test_[0-9]*",),
    ),
    Deviation(
        "Every class of tests inherits it; it looks for leaks in CherryPy and passes whatever it finds.",
        ("test/test_*.py::*::test_gc",),
    ),
    Deviation(
        "It sleeps for two seconds and wants a thread of CherryPy's to have run: a busy machine lets that be late.",
        ("test/test_session.py::SessionTest::test_0_Session",),
    ),
)

DJANGO = (
    Deviation(
        "A stream is chunked and the connection goes on (RFC 9112 7.1); Django's server cannot chunk and closes.",
        ("servers/tests.py::LiveServerViews::test_closes_connection_without_content_length",),
        fails="False is not true",
    ),
    Deviation(
        "The answer to `Connection: close` says close (RFC 9112 9.6, SHOULD); Django's server says nothing and closes.",
        (
            "servers/tests.py::LiveServerViews::test_keep_alive_connection_clears_previous_request_data",
            "servers/tests.py::LiveServerViews::test_keep_alive_on_connection_with_content_length",
        ),
        fails=r"\"Connection\": \"close\".*True is not false",
    ),
    Deviation(
        "With one thread too, an idle connection does not keep others waiting, so it may stay open.",
        ("servers/tests.py::SingleThreadLiveServerViews::test_closes_connection_with_content_length",),
        fails="False is not true",
    ),
)

LEFT_OUT = {
    "waitress": {
        "The parts of waitress one by one, called without a socket.": (
            *("adjustments", "buffers", "channel", "init", "parser", "proxy_headers", "receiver", "regression"),
            *("runner", "server", "task", "trigger", "utilities", "wasyncore"),
        )
    },
    "cheroot": {
        "The parts of cheroot one by one, or its command line.": (
            *("_compat", "cli", "dispatch", "errors", "makefile", "server"),
        ),
        "TLS, which poorhttp leaves to a front server.": ("ssl",),
    },
    "cherrypy": {
        "No server in it: the bus, helpers, plugins.": ("bus", "httputil", "plugins"),
        "Starts and stops CherryPy's own processes, daemons and reloads.": ("states",),
        "CherryPy's other server, which is not WSGI.": ("native",),
        "Listens on fixed ports.": ("config_server",),
        "Needs a library of routes, and has nothing of the server in it.": ("routes",),
    },
    "django": {},
}
"""Whole files that are not run: suite -> reason -> names, of which `test_NAME.py` is the file."""

DEVIATIONS: dict[str, tuple[Deviation, ...]] = {
    "waitress": WAITRESS,
    "cheroot": CHEROOT,
    "cherrypy": CHERRYPY,
    "django": DJANGO,
}
