"""Files of a document root: what is sent, what is not, and the fields, all through wsgiref's validator."""

import contextlib
import gzip
import io
import os
import re
import socket
import time
import types
from pathlib import Path
from wsgiref.util import FileWrapper

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_dispatch import call, table

from poorhttp import _engine, http
from poorhttp.dispatch import (
    Table,
    TableError,
    application,
    codings,
    contained,
    file_slice,
    listing,
    media_types,
    ranges,
)
from poorhttp.dispatch.contained import Root
from poorhttp.dispatch.percent import NAME, encoded, raw
from poorhttp.dispatch.static import is_hidden

DATA = bytes(range(256)) * 1000
SECRET = b"nobody may read this"
OLD = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110
OLD_DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.fixture(scope="module", params=["engine", "python"], autouse=True)
def opened_by(request):
    """Files are opened by the engine, as under poorhttp, or by Python, as under other servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contained, "EngineFile", _engine.OpenFile if request.param == "engine" else None)
        yield request.param


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A document root `www` with all sorts of files, and what must not be reached beside it."""
    place = tmp_path_factory.mktemp("site")
    www = place / "www"
    for directory in ("sub/deep", "pages", ".hidden", ".well-known/acme", "empty", "a&b <i>"):
        (www / directory).mkdir(parents=True)
    for name, data in {
        "data.bin": DATA,
        "a.txt": b"text",
        "void.txt": b"",
        "sub/deep/x.css": b"css",
        "pages/index.html": b"<p>index",
        ".secret": SECRET,
        ".hidden/file": SECRET,
        "sub/.secret": SECRET,
        "backup.txt~": SECRET,
        ".well-known/acme/token": b"token",
        "page.html": b"<p>plain</p>" * 100,
        "page.html.gz": gzip.compress(b"<p>plain</p>" * 100),
        "page.html.br": b"not really br",
        "data.bin.gz": b"never sent for data.bin",
        "stale.js": b"new",
        "stale.js.gz": b"old",
        "odd.blend": b"blend",
        "j\u00e4ger.txt": b"umlaut",
    }.items():
        (www / name).write_bytes(data)
    for name in ("data.bin", "page.html", "page.html.gz", "page.html.br", "stale.js"):
        os.utime(www / name, (OLD, OLD))
    os.utime(www / "stale.js.gz", (OLD - 1, OLD - 1))
    Path(os.fsdecode(os.fsencode(www) + b"/\xff.txt")).write_bytes(b"no utf-8")
    os.mkfifo(www / "pipe")
    (place / "outside.txt").write_bytes(SECRET)
    (place / "www-private").mkdir()
    (place / "www-private" / "x").write_bytes(SECRET)
    (www / "out").symlink_to("../outside.txt")
    (www / "up").symlink_to("..")
    (www / "private").symlink_to(place / "www-private")
    (www / "in").symlink_to("sub/deep")
    (www / "absolute").symlink_to(www / "a.txt")
    (www / "loop").symlink_to("loop")
    (www / "dangling").symlink_to("nothing")
    return place


@pytest.fixture(scope="module")
def app(place, opened_by):
    return application(table(), document=str(place / "www"))


@pytest.fixture(scope="module")
def listed(place, opened_by):
    return application(table(), document=str(place / "www"), index=True)


def get(app, path="/data.bin", method="GET", **fields):
    return call(app, path, method, **{f"HTTP_{name.upper()}": value for name, value in fields.items()})


def latin(path):
    """A path as PATH_INFO has it (PEP 3333)."""
    return os.fsencode(path).decode("latin-1")


# What is sent


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/data.bin", DATA, "application/octet-stream"),
        ("/a.txt", b"text", "text/plain; charset=utf-8"),
        ("/void.txt", b"", "text/plain; charset=utf-8"),
        ("/sub/deep/x.css", b"css", "text/css; charset=utf-8"),
        ("/pages/", b"<p>index", "text/html; charset=utf-8"),
        ("/in/x.css", b"css", "text/css; charset=utf-8"),
        ("/up/www/a.txt", b"text", "text/plain; charset=utf-8"),
        ("/absolute", b"text", "application/octet-stream"),
        ("/.well-known/acme/token", b"token", "application/octet-stream"),
        (latin("/j\u00e4ger.txt"), b"umlaut", "text/plain; charset=utf-8"),
        ("/\xff.txt", b"no utf-8", "text/plain; charset=utf-8"),
        ("/odd.blend", b"blend", "application/octet-stream"),
    ],
)
def test_a_file_is_sent(app, path, body, kind):
    sent = get(app, path)
    assert (sent.code, sent.body, sent.header("Content-Type")) == (200, body, kind)
    assert sent.header("Content-Length") == str(len(body))
    assert sent.header("X-Content-Type-Options") == "nosniff"
    assert sent.header("Accept-Ranges") == "bytes"
    head = get(app, path, "HEAD")
    assert (head.status, head.headers, head.body) == (sent.status, sent.headers, b"")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/nothing",
            "/nothing/",
            "/sub/nothing/x",
            "/a.txt/",
            "/a.txt/x",
            "/sub/",
            "/",
            "//a.txt",
            "/sub//deep/x.css",
        ),
        *(
            "/.secret",
            "/.hidden/file",
            "/sub/.secret",
            "/backup.txt~",
            "/.well-known",
            "/.well-known/.secret",
            "/.",
            "/..",
        ),
        *("/../outside.txt", "/sub/../../outside.txt", "/../www-private/x", "/sub/../a.txt", "/./a.txt"),
        *("/out", "/up/outside.txt", "/up/www-private/x", "/private/x", "/private/", "/private", "/loop", "/loop/x"),
        *("/dangling", "/pipe", "/pipe/x", "/a\0b", "/" + "x" * 300, "/" + "y/" * 3000, "-private/x", "a.txt", "*"),
    ],
)
def test_what_no_client_gets_is_not_found(app, listed, path):
    for each in app, listed:
        if each is listed and path in ("/", "/sub/"):
            continue
        sent = call(each, path, valid=False)
        assert (sent.code, SECRET in sent.body) == (404, False)


def test_a_path_that_is_not_utf8_and_leads_nowhere_is_a_bad_request(app):
    assert call(app, "/\xfe.txt", valid=False).code == 400


def test_handlers_and_hooks_can_send_back_a_path_that_is_not_utf8(place):
    seen = []

    def page(req):
        return f"no {req.uri}"

    def rest(req, path):
        return "rest"

    own = table(
        handlers={"/x/<path:path>": (http.METHOD_GET, rest)},
        errors={400: page},
        setreq=lambda req: seen.append(req.uri.encode()),
    )
    app = application(own, document=str(place / "www"))
    for path in "/\xfe.txt", "/x/\xed\xa0\x80":
        sent = call(app, path, valid=False)
        assert (sent.code, sent.text, sent.log) == (400, "no " + path.encode("latin-1").decode("utf-8", "replace"), "")
    for path in "/\xff.txt", "/\xff.txt", "/\xfe.txt":  # the first two have a file
        call(app, path, valid=False)
    assert [call(app, path, valid=False).code for path in ("/\xff.txt", "/\xfe.txt", "/\xff.txt")] == [200, 400, 200]
    assert seen[0] == "/\ufffd.txt".encode()


def test_a_directory_whose_name_is_not_utf8_gets_its_slash(tmp_path):
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    app = application(table(), document=str(tmp_path), index=True)
    assert call(app, "/\xff", valid=False).header("Location") == "/%FF/"
    assert "Index of /\ufffd/" in call(app, "/\xff/", valid=False).text


def test_links_out_of_the_root_are_followed_by_a_setting(place):
    app = application(table(), document=str(place / "www"), follow_symlinks=True)
    assert [get(app, path).body for path in ("/out", "/private/x", "/up/outside.txt", "/in/x.css")] == [
        *[SECRET] * 3,
        b"css",
    ]
    assert [get(app, path).code for path in ("/loop", "/dangling", "/up/../outside.txt", "/.secret")] == [404] * 4


def test_who_opens_the_files(place, opened_by):
    with contextlib.closing(Root(str(place / "www"), follows_links=False).open([b"a.txt"])) as opened:
        assert isinstance(opened, {"engine": _engine.OpenFile, "python": contained.OpenFile}[opened_by])
        assert (opened.file_size, opened.mode & 0o170000) == (4, 0o100000)


def test_where_the_engine_may_not_open_files_python_does(place, monkeypatch):
    """A sandbox or an old kernel refuses openat2."""

    def refused(path, follows_links):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(contained, "EngineFile", refused)
    assert get(application(table(), document=str(place / "www")), "/in/x.css").body == b"css"


def test_a_body_of_a_file_is_read_in_blocks_and_closed(place):
    opened = Root(str(place / "www"), follows_links=False).open([b"data.bin"])
    body = opened.body(10, 200_000)
    opened.close()
    assert body.size == 199_990 and body.modified is None
    assert b"".join(body) == DATA[10:200_000]
    body.close()
    with pytest.raises((StopIteration, ValueError)):
        next(iter(body))


def test_the_root_itself_may_be_a_link(place, tmp_path):
    (tmp_path / "root").symlink_to(place / "www")
    app = application(table(), document=str(tmp_path / "root"))
    assert [get(app, path).code for path in ("/a.txt", "/in/x.css", "/out")] == [200, 200, 404]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_forbidden(tmp_path):
    (tmp_path / "x").write_bytes(SECRET)
    (tmp_path / "x").chmod(0)
    assert get(application(table(), document=str(tmp_path)), "/x").code == 403


def test_a_socket_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert get(application(table(), document="."), "/socket").code == 404


def test_order_table_file_default(place):
    def page(req):
        req.write(f"page {req.uri}")
        return http.DONE

    known = table(handlers={"/a.txt": (http.METHOD_GET, page)}, default_handler=page)
    app = application(known, document=str(place / "www"))
    assert [get(app, path).text for path in ("/a.txt", "/sub/deep/x.css", "/none")] == [
        "page /a.txt",
        "css",
        "page /none",
    ]
    assert get(app, "/none", "POST").text == "page /none"


def test_hooks_see_requests_for_files_and_may_refuse_them(place):
    seen = []

    def guard(req):
        seen.append((req.uri, req.document_root()))
        req.headers_out["Cache-Control"] = "max-age=60"
        if req.uri.startswith("/sub/"):
            raise http.SERVER_RETURN(http.HTTP_FORBIDDEN)

    app = application(table(setreq=guard), document=str(place / "www"))
    assert [get(app, path).code for path in ("/a.txt", "/sub/deep/x.css")] == [200, 403]
    assert get(app, "/a.txt").header("Cache-Control") == "max-age=60"
    assert seen[0] == ("/a.txt", os.path.realpath(place / "www"))


def test_an_own_field_replaces_ours(place):
    def own(req):
        req.headers_out["etag"] = '"own"'
        req.headers_out["Content-Type"] = "text/x-own"

    app = application(table(setreq=own), document=str(place / "www"))
    sent = get(app, "/a.txt")
    assert (sent.header("ETag"), sent.header("Content-Type"), sent.header("Content-Length")) == (
        '"own"',
        "text/x-own",
        "4",
    )


@pytest.mark.parametrize("path", ["/a.txt", "/pages/", "/sub"])
def test_other_methods(app, path):
    for method in "POST", "PUT", "DELETE", "PATCH":
        sent = get(app, path, method)
        assert (sent.code, sent.header("Allow")) == (405, "HEAD, GET, OPTIONS")
    sent = get(app, path, "OPTIONS")
    assert (sent.code, sent.header("Allow"), sent.body) == (204, "HEAD, GET, OPTIONS", b"")
    assert get(app, "/none", "POST").code == 404


def test_a_directory_gets_its_slash(app):
    sent = get(app, "/sub")
    assert (sent.code, sent.header("Location")) == (301, "/sub/")
    sent = call(app, "/sub/deep", SCRIPT_NAME="/shop", QUERY_STRING="a=b&c")
    assert (sent.code, sent.header("Location")) == (301, "/shop/sub/deep/?a=b&c")
    assert get(app, "/a&b <i>").header("Location") == "/a%26b%20%3Ci%3E/"


@pytest.mark.parametrize(
    ("query", "sent_on"),
    [("a\\b", "a%5Cb"), ("a\x01\x7f", "a%01%7F"), ("\xc5\xbe=\xff", "%C5%BE=%FF"), ("a<b&c=%41", "a%3Cb&c=%41")],
)
def test_a_redirect_to_a_directory_keeps_any_query(app, query, sent_on):
    sent = call(app, "/sub", QUERY_STRING=query)
    assert (sent.code, sent.header("Location"), sent.log) == (301, f"/sub/?{sent_on}", "")


@pytest.mark.parametrize("path", ["//example.com", "//sub", "/\\sub", "///sub", "/sub//deep", "/%2Fsub"])
def test_no_redirect_leads_to_another_host(app, path):
    assert call(app, path, valid=False).header("Location") is None


# Conditional requests


def test_validators(app, place):
    sent = get(app)
    assert (sent.header("ETag"), sent.header("Last-Modified")) == (f'"{OLD * 10**9:x}-{len(DATA):x}"', OLD_DATE)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"if_none_match": "{etag}"}, 304),
        ({"if_none_match": 'W/{etag}, "x"'}, 304),
        ({"if_none_match": '"x"'}, 200),
        ({"if_none_match": "*"}, 304),
        ({"if_modified_since": OLD_DATE}, 304),
        ({"if_modified_since": "Sun, 06 Nov 1994 08:49:36 GMT"}, 200),
        ({"if_modified_since": "nonsense"}, 200),
        ({"if_none_match": '"x"', "if_modified_since": OLD_DATE}, 200),
        ({"if_match": "{etag}"}, 200),
        ({"if_match": '"x"'}, 412),
        ({"if_unmodified_since": "Sun, 06 Nov 1994 08:49:36 GMT"}, 412),
        ({"if_none_match": "{etag}", "range": "bytes=0-1"}, 304),
    ],
)
def test_conditional_requests(app, fields, code):
    etag = get(app).header("ETag")
    for method in "GET", "HEAD":
        sent = get(app, method=method, **{name: value.format(etag=etag) for name, value in fields.items()})
        assert sent.code == code
        if code == 304:
            assert (sent.header("ETag"), sent.body, sent.header("Content-Type")) == (etag, b"", None)


# Parts


@pytest.mark.parametrize(
    ("field", "first", "end"),
    [
        *(("bytes=0-0", 0, 1), ("bytes=0-99", 0, 100), ("bytes=100-", 100, 256000), ("bytes=-5", 255995, 256000)),
        *(("bytes=255999-", 255999, 256000), ("bytes=10-999999999", 10, 256000), ("bytes=-999999999", 0, 256000)),
        *(("BYTES=1-2", 1, 3), ("bytes= 1-2 ,", 1, 3), ("bytes=0-9,5-19,20-29", 0, 30), ("bytes=0-9,256000-", 0, 10)),
        *((f"bytes=7-{'9' * 5000}", 7, 256000), ("bytes=0-199999", 0, 200000)),
    ],
)
def test_one_part(app, field, first, end):
    sent = get(app, range=field)
    assert (sent.code, sent.body) == (206, DATA[first:end])
    assert sent.header("Content-Range") == f"bytes {first}-{end - 1}/256000"
    assert sent.header("Content-Length") == str(end - first)
    assert sent.header("ETag") == get(app).header("ETag")


@pytest.mark.parametrize(
    "field",
    [
        *(
            "bytes=",
            "bytes=-",
            "bytes=x-",
            "bytes=1",
            "bytes=2-1",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1_0-20",
            "1-2",
            "",
        ),
        *("items=0-1", "bytes=0-1,x", "bytes=\u0661-2", "bytes=1-2-3", "bytes=,", "bytes=0 - 1"),
        "bytes=" + ",".join(f"{n * 10}-{n * 10 + 1}" for n in range(ranges.MOST + 1)),
        "bytes=" + "0-1," * 101,
        "bytes=" + "," * 100_000,
    ],
)
def test_a_range_that_is_no_range_is_ignored(app, field):
    sent = call(app, "/data.bin", valid=False, HTTP_RANGE=field)
    assert (sent.code, sent.body) == (200, DATA)


@pytest.mark.parametrize("field", ["bytes=256000-", "bytes=-0", f"bytes={'9' * 5000}-", "bytes=256000-,-0"])
def test_no_such_part(app, field):
    sent = get(app, range=field)
    assert (sent.code, sent.header("Content-Range")) == (416, "bytes */256000")
    assert get(app, method="HEAD", range=field).code == 200


def test_parts_of_an_empty_file(app):
    assert [get(app, "/void.txt", range=f"bytes={part}").code for part in ("0-", "-0", "-5", "0-0,-1")] == [
        416,
        416,
        200,
        200,
    ]


def parts_of(sent):
    """Content-Range and bytes of each part of a multipart answer, and its boundary."""
    kind, _, boundary = sent.header("Content-Type").partition("; boundary=")
    assert (sent.code, kind, sent.header("Content-Range")) == (206, "multipart/byteranges", None)
    assert sent.header("Content-Length") == str(len(sent.body))
    before, *parts, after = sent.body.split(b"\r\n--" + boundary.encode())
    assert (before, after) == (b"", b"--\r\n")
    heads = [part.split(b"\r\n\r\n", 1) for part in parts]
    return [(re.search(rb"Content-Range: bytes (\d+)-(\d+)/(\d+)$", head), body) for head, body in heads]


def test_several_parts(app):
    sent = get(app, range="bytes=500-599,-1,0-9")
    parts = parts_of(sent)
    assert [tuple(map(int, found.groups())) for found, _ in parts] == [
        *((500, 599, 256000), (255999, 255999, 256000), (0, 9, 256000)),
    ]
    assert [body for _, body in parts] == [DATA[500:600], DATA[-1:], DATA[:10]]
    assert b"Content-Type: application/octet-stream\r\n" in sent.body
    assert sent.header("ETag") == get(app).header("ETag")


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), min_size=1, max_size=40), st.integers(0, 100))
def test_parts_hold_what_was_asked_for_and_never_more_than_the_file(pairs, size):
    pairs = [(min(pair), max(pair)) for pair in pairs]
    parts = ranges.asked("bytes=" + ",".join(f"{first}-{last}" for first, last in pairs), size)
    wanted = {byte for first, last in pairs for byte in range(first, last + 1) if byte < size}
    if parts is None:
        assert len(wanted) > ranges.MOST
    else:
        given_ = [byte for first, end in parts for byte in range(first, end)]
        assert set(given_) == wanted and len(given_) == len(wanted) and len(parts) <= ranges.MOST


@given(st.text(max_size=60) | st.text("bytes=0123456789-, ", max_size=60), st.integers(0, 1000))
def test_any_range_is_understood_or_ignored(field, size):
    for text in field, f"bytes={field}":
        parts = ranges.asked(text, size)
        assert parts is None or all(0 <= first < end <= size for first, end in parts)


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("{etag}", 206),
        ("W/{etag}", 200),
        ('"x"', 200),
        (OLD_DATE, 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("", 200),
    ],
)
def test_if_range(app, field, code):
    etag = get(app).header("ETag")
    assert get(app, range="bytes=0-9", if_range=field.format(etag=etag)).code == code


def test_a_date_of_this_second_names_no_version(app, place):
    assert not ranges.applies("x", '"e"', "x", time.time())
    assert ranges.applies("x", '"e"', "x", time.time() - 5)
    assert not ranges.applies('W/"e"', 'W/"e"', "x", 0)


def test_a_file_that_becomes_shorter_ends_its_parts(place, tmp_path):
    (tmp_path / "x.bin").write_bytes(b"0123456789" * 10)
    descriptor = os.open(tmp_path / "x.bin", os.O_RDONLY)
    several = ranges.Multipart(descriptor, "text/plain", 100, [(0, 5), (50, 60)])
    os.truncate(tmp_path / "x.bin", 20)
    assert len(b"".join(several)) < several.size
    several.close()
    several.close()


# Compressed in advance


@pytest.mark.parametrize(
    ("field", "coding"),
    [
        *(
            ("gzip, deflate, br, zstd", "br"),
            ("gzip", "gzip"),
            ("gzip;q=1, br;q=0.5", "gzip"),
            ("br;q=0, gzip", "gzip"),
        ),
        *(("*", "br"), ("identity", None), ("", None), ("gzip;q=0", None), ("zstd", None), ("x-gzip", "gzip")),
        *(("*;q=0", None), ("gzip;q=x", None), (";;,=,gzip;q", None), ("*;q=0.1, br;q=0", "gzip")),
    ],
)
def test_the_client_gets_what_was_compressed_if_it_takes_it(app, place, field, coding):
    sent = get(app, "/page.html", accept_encoding=field)
    name = {"br": "page.html.br", "gzip": "page.html.gz", None: "page.html"}[coding]
    assert (sent.header("Content-Encoding"), sent.body) == (coding, (place / "www" / name).read_bytes())
    assert (sent.header("Vary"), sent.header("Content-Type")) == ("Accept-Encoding", "text/html; charset=utf-8")
    etag = sent.header("ETag")
    assert (etag == get(app, "/page.html").header("ETag")) == (coding is None)
    assert get(app, "/page.html", accept_encoding=field, if_none_match=etag).code == 304


def test_each_coding_has_a_tag_of_its_own(app):
    tags = {get(app, "/page.html", accept_encoding=coding).header("ETag") for coding in ("br", "gzip", "")}
    assert len(tags) == 3


def test_a_compressed_file_that_is_older_is_not_sent(app):
    sent = get(app, "/stale.js", accept_encoding="gzip")
    assert (sent.body, sent.header("Content-Encoding"), sent.header("Vary")) == (b"new", None, "Accept-Encoding")


def test_what_is_compressed_by_nature_is_not_looked_for(app):
    sent = get(app, accept_encoding="gzip")
    assert (sent.body, sent.header("Vary")) == (DATA, None)


def test_a_compressed_file_by_its_own_name(app):
    sent = get(app, "/page.html.gz", accept_encoding="gzip")
    assert (sent.header("Content-Type"), sent.header("Content-Encoding")) == ("application/gzip", None)


def test_parts_of_a_compressed_file(app, place):
    sent = get(app, "/page.html", accept_encoding="gzip", range="bytes=2-9")
    assert (sent.code, sent.body) == (206, (place / "www/page.html.gz").read_bytes()[2:10])
    assert sent.header("Content-Encoding") == "gzip"


def test_a_resumed_download_goes_on_in_the_coding_it_began_in(app, place):
    compressed = (place / "www/page.html.gz").read_bytes()
    plain, coded = (get(app, "/page.html", accept_encoding=coding).header("ETag") for coding in ("", "gzip"))
    rest = get(app, "/page.html", accept_encoding="gzip", range="bytes=10-", if_range=coded)
    assert (rest.code, rest.body, rest.header("ETag")) == (206, compressed[10:], coded)
    for accepted, tag in ("gzip", plain), ("", coded):
        whole = get(app, "/page.html", accept_encoding=accepted, range="bytes=10-", if_range=tag)
        assert (whole.code, whole.header("Content-Range")) == (200, None)


@given(st.text(max_size=100) | st.text("gzipbrstd;q=01., *", max_size=100))
def test_any_accept_encoding_is_read(field):
    assert set(codings.accepted(field)) <= set(codings.SUFFIXES)


# Types


def test_own_types_precede(place):
    own = {"blend": "application/x-blender", "txt": "text/plain; charset=iso-8859-2", ".CSS": "text/x-css"}
    app = application(table(), document=str(place / "www"), mime_types=own)
    kinds = [get(app, path).header("Content-Type") for path in ("/odd.blend", "/a.txt", "/sub/deep/x.css")]
    assert kinds == ["application/x-blender", "text/plain; charset=iso-8859-2", "text/x-css; charset=utf-8"]


def test_the_table_of_types_is_sound():
    for ending, (kind, _) in media_types.by_ending().items():
        assert re.fullmatch(r"[a-z0-9]+", ending)
        assert re.fullmatch(r"[a-z]+/[a-z0-9.+-]+(; charset=utf-8)?", kind)


# Refused at the start


def test_a_root_that_is_none(tmp_path):
    (tmp_path / "file").touch()
    for bad in (tmp_path / "none", tmp_path / "file", "a\0b"):
        with pytest.raises(TableError, match=r"document is .*; expected a directory"):
            application(table(), document=str(bad))


def test_a_root_that_holds_the_application(tmp_path):
    module = types.ModuleType("dispatch_table")
    module.handlers = {}
    (tmp_path / "app").mkdir()
    module.__file__ = str(tmp_path / "app" / "dispatch_table.py")
    for root in (tmp_path, tmp_path / "app"):
        with pytest.raises(TableError, match="clients could read the application"):
            application(module, document=str(root))
    (tmp_path / "app" / "www").mkdir()
    application(module, document=str(tmp_path / "app" / "www"))


def test_a_root_that_holds_the_functions_of_a_table(tmp_path):
    """A Table knows no file of its own."""
    wraps = "def wrap(function):\n def wrapper(req): return function(req)\n wrapper.__wrapped__ = function\n return wrapper\n"
    (tmp_path / "app").mkdir()
    names = {}
    exec(compile("def page(req): return 'x'\n", str(tmp_path / "app" / "pages.py"), "exec"), names)
    exec(compile(wraps, "<string>", "exec"), names)
    for function in names["page"], names["wrap"](names["page"]):
        made = Table()
        made.route("/")(function)
        with pytest.raises(TableError, match=r"holds pages\.py: clients could read the application"):
            application(made, document=str(tmp_path))
        (tmp_path / "www").mkdir(exist_ok=True)
        application(made, document=str(tmp_path / "www"))


# Nothing escapes

WORDS = (
    "www",
    "sub",
    "deep",
    "x.css",
    "..",
    ".",
    "",
    "up",
    "in",
    "out",
    "private",
    "outside.txt",
    "www-private",
    "x",
    "~",
    ".secret",
    "\0",
    "%2e%2e",
    "\\..\\",
    "\xff",
)
PATHS = st.lists(st.sampled_from(WORDS) | st.text(st.characters(max_codepoint=255), max_size=5), max_size=7).map(
    "/".join
)


@given(PATHS, st.booleans())
def test_no_path_leads_out_of_the_root(app, listed, path, slash):
    for each in app, listed:
        sent = call(each, ("/" if slash else "") + path, valid=False)
        assert SECRET not in sent.body and sent.code in (200, 301, 400, 404)
        assert not re.match(r"//|/\\|[a-z]+:", sent.header("Location") or "")


def test_a_tree_that_changes_all_the_time_leads_nowhere_else(tmp_path):
    """A directory and a link out of the root take turns, while another thread asks."""
    import threading

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_bytes(SECRET)
    root = tmp_path / "root"
    (root / "real").mkdir(parents=True)
    (root / "real" / "x").write_bytes(b"inside")
    (root / "link").symlink_to("../out")
    os.rename(root / "real", root / "d")
    found, ends = set(), threading.Event()
    contained = Root(str(root), follows_links=False)

    def ask():
        while not ends.is_set():
            try:
                opened = contained.open([b"d", b"x"])
            except OSError:
                found.add(b"none")
            else:
                descriptor = opened.take()
                found.add(os.read(descriptor, 100))
                os.close(descriptor)
                opened.close()

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 20
    for count in range(100_000):
        os.rename(root / "d", root / "real")
        os.rename(root / "link", root / "d")
        os.rename(root / "d", root / "link")
        os.rename(root / "real", root / "d")
        if (count > 500 and found >= {b"none", b"inside"}) or time.monotonic() > deadline:
            break
    ends.set()
    asking.join()
    assert found == {b"none", b"inside"}


def test_no_descriptor_is_left_open(app, listed, place):
    before = os.listdir("/proc/self/fd")
    for path in (
        "/data.bin",
        "/sub",
        "/sub/",
        "/none/x",
        "/in/x.css",
        "/out",
        "/pipe",
        "/up/x",
        "/page.html",
        "/",
        "/\xfe",
    ):
        for method in "GET", "HEAD", "POST", "OPTIONS":
            for each in app, listed:
                get(each, path, method, range="bytes=0-5,8-9", accept_encoding="gzip, br")
                get(each, path, method, if_match='"x"')
                get(each, path, method, if_none_match="*")
                get(each, path, method, range="bytes=999999-")
    assert os.listdir("/proc/self/fd") == before


def test_no_descriptor_is_left_open_by_an_answer_that_fails(place):
    def spoil(req):
        req.content_type = "text/plain\n"

    app = application(table(post_process=spoil), document=str(place / "www"))
    before = os.listdir("/proc/self/fd")
    for fields in {}, {"range": "bytes=0-5,8-9"}, {"range": "bytes=0-5"}:
        assert get(app, **fields).code == 500
        assert os.listdir("/proc/self/fd") == before


def test_no_descriptor_is_left_open_where_the_client_has_gone(place):
    class Gone(Exception):
        pass

    def begin(req):
        req.write("what stands before a file is sent by write()")

    def start_response(status, headers, exc_info=None):
        if exc_info is not None:
            raise exc_info[1]

        def write(data):
            raise Gone

        return write

    app = application(table(setreq=begin), document=str(place / "www"))
    before = os.listdir("/proc/self/fd")
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/data.bin", "HTTP_RANGE": "bytes=0-5,8-9"}
    with pytest.raises(Gone):
        app({**environ, "wsgi.errors": io.StringIO()}, start_response)
    assert os.listdir("/proc/self/fd") == before


def test_another_server_gets_no_more_of_a_growing_file_than_was_announced(tmp_path, monkeypatch):
    monkeypatch.setattr(file_slice, "_IS_POORHTTP", False)
    monkeypatch.setattr(contained, "EngineFile", None)
    (tmp_path / "log.bin").write_bytes(DATA)

    def grow(file, block):
        with open(tmp_path / "log.bin", "ab") as other:
            other.write(b"more")
        return FileWrapper(file, block)

    app = application(table(), document=str(tmp_path))
    sent = call(app, "/log.bin", valid=False, **{"wsgi.file_wrapper": grow})
    assert (sent.body, sent.header("Content-Length")) == (DATA, str(len(DATA)))
    with contextlib.closing(file_slice.open_slice(str(tmp_path / "log.bin"), 10, -1)) as file:
        assert (file.read(5), file.read(), file.read(), file.size) == (DATA[10:15], DATA[15:] + b"more", b"", 0)


@given(st.binary(max_size=20))
def test_an_encoded_path_is_safe_anywhere(path):
    text = encoded(path, NAME)
    assert re.fullmatch(r"[A-Za-z0-9%._~/-]*", text)
    assert re.sub(rb"%([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode()) == path


@given(st.binary(max_size=20))
def test_the_bytes_of_a_path_come_back(path):
    assert raw(path.decode("utf-8", "surrogateescape")) == path


@pytest.mark.parametrize("path", [b"", b"a", b"//a", b"/.a", b"/a/.b", b"/a~", b"/a~/b", b"/a/./b", b"/.well-known/.a"])
def test_hidden(path):
    assert is_hidden(path)


# The listing


def rows(sent):
    """The links of a listing with the texts of their rows."""
    return re.findall(
        r'<tr><td><a href="([^"]*)">(.*?)</a></td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>', sent.text
    )


def test_the_listing(listed):
    sent = get(listed, "/")
    assert (sent.code, sent.header("Content-Type")) == (200, "text/html; charset=utf-8")
    assert "<h1>Index of /</h1>" in sent.text
    assert re.findall(r"<th[^>]*><a href=\"([^\"]*)\">(.*?)</a>", sent.text) == [
        *(("?sort=-name", "Name"), ("?sort=modified", "Last Modified"), ("?sort=size", "Size"), ("?sort=type", "Type")),
    ]
    links = [row[0] for row in rows(sent)]
    assert links[:5] == ["a%26b%20%3Ci%3E/", "empty/", "in/", "pages/", "sub/"]
    assert {"a.txt", "absolute", "data.bin", "%FF.txt", "j%C3%A4ger.txt"} <= set(links)
    assert not {".secret", ".hidden/", "backup.txt~", "out", "up/", "private/", "pipe", "loop", "dangling"} & set(links)
    by_link = {row[0]: row for row in rows(sent)}
    shown = time.strftime("<span>%Y-%m-%d</span> %H:%M", time.localtime(OLD))
    size = '<span title="256000 bytes">250.0 KiB</span>'
    assert by_link["data.bin"][2:] == (shown, size, "application/octet-stream")
    assert by_link["sub/"][3:] == ("", "Directory")
    assert by_link["a.txt"][4] == "text/plain"
    assert get(listed, "/", "HEAD").body == b""


def test_every_link_of_the_listing_leads_to_its_file(listed):
    from urllib.parse import unquote_to_bytes

    for link, *_ in rows(get(listed, "/")):
        path = "/" + unquote_to_bytes(link).decode("latin-1")
        assert get(listed, path).code == 200, link


def test_the_listing_of_a_directory_below_leads_up(listed):
    assert [row[0] for row in rows(get(listed, "/sub/"))] == ["../", "deep/"]
    assert rows(get(listed, "/empty/"))[0][0] == "../"
    assert "<h1>Index of /a&amp;b &lt;i&gt;/</h1>" in get(listed, "/a&b <i>/").text
    mounted = call(listed, "/", SCRIPT_NAME="/shop")
    assert "<h1>Index of /shop/</h1>" in mounted.text and "../" not in mounted.text


def test_index_html_precedes_the_listing(listed):
    assert get(listed, "/pages/").body == b"<p>index"


@pytest.mark.parametrize(
    ("query", "links"),
    [
        ("", ["z/", "a.css", "b.png", "c.css"]),
        ("sort=-name", ["z/", "c.css", "b.png", "a.css"]),
        ("sort=size", ["z/", "c.css", "a.css", "b.png"]),
        ("sort=-size", ["z/", "b.png", "a.css", "c.css"]),
        ("x=y&sort=modified", ["z/", "b.png", "c.css", "a.css"]),
        ("sort=type", ["z/", "b.png", "a.css", "c.css"]),
        ("sort=<script>", ["z/", "a.css", "b.png", "c.css"]),
        ("sort=--name&sort", ["z/", "a.css", "b.png", "c.css"]),
    ],
)
def test_the_order_of_the_listing(tmp_path, query, links):
    (tmp_path / "z").mkdir()
    for number, (name, size) in enumerate([("b.png", 300), ("c.css", 1), ("a.css", 20)]):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (number, number))
    sent = call(application(table(), document=str(tmp_path), index=True), "/", QUERY_STRING=query)
    assert [row[0] for row in rows(sent)] == links
    assert "<script>" not in sent.text
    assert sent.text.count("<th aria-sort=") == 1


NAMES = (
    st.binary(min_size=1, max_size=30)
    .map(lambda name: re.sub(rb"[/\0]", b"-", name))
    .filter(lambda name: not name.startswith(b".") and not name.endswith(b"~") and name != b"index.html")
)


@given(
    st.lists(
        NAMES
        | st.sampled_from(
            [b"<script>", b'"onclick="', b"javascript:x", b"a&amp;b", b"\x1b[31m", "\u202efdp.exe".encode(), b"'"]
        ),
        max_size=4,
    )
)
def test_no_name_of_a_file_gets_out_of_its_place(tmp_path_factory, names):
    directory = tmp_path_factory.mktemp("names")
    for name in names:
        Path(os.fsdecode(os.fsencode(directory) + b"/" + name)).write_bytes(b"")
    app = application(table(), document=str(directory), index=True)
    sent = get(app, "/")
    found = rows(sent)
    assert len(found) == len(set(names)) == sent.text.count("<bdi>")
    for link, text, *_ in found:
        assert re.fullmatch(r"[A-Za-z0-9%._~-]+", link)
        assert not re.search(r"[<>\"'\x00-\x1f\u202e]", text.removeprefix("<bdi>").removesuffix("</bdi>"))
    assert sent.text.count("<a ") == len(found) + 4


def test_a_large_directory_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MOST", 5)
    for number in range(7):
        (tmp_path / str(number)).touch()
    sent = get(application(table(), document=str(tmp_path), index=True), "/")
    assert len(rows(sent)) == 5 and "only 5 entries of a directory are read" in sent.text


def test_hidden_and_refused_entries_count_for_the_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MOST", 5)
    for number in range(4):
        (tmp_path / f".{number}").touch()
        (tmp_path / f"link{number}").symlink_to("/")
    sent = get(application(table(), document=str(tmp_path), index=True), "/")
    assert not rows(sent) and "only 5 entries of a directory are read" in sent.text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_for_people(size, text):
    assert listing._size(size) == text
