"""Files of a document root: what is sent and what is not, their types, and roots that are refused."""

import contextlib
import os
import re
import socket
import types

import pytest
from dispatching import call, table
from documents import DATA, SECRET, get, latin

from poorhttp import _engine, http
from poorhttp.dispatch import (
    Table,
    TableError,
    application,
    contained,
    media_types,
)
from poorhttp.dispatch.contained import Root

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


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("x", ""),
        ("x", "text"),
        ("x", "text/"),
        ("x", "text/a b"),
        ("x", "text/html\r\nX-Evil: 1"),
        ("x", "text/\u017e"),
        ("x", 5),
        (5, "text/x"),
    ],
)
def test_what_is_no_media_type(tmp_path, ending, kind):
    with pytest.raises(TableError, match=r"the media type of .* is .*; expected one such as text/html"):
        application(table(), document=str(tmp_path), mime_types={ending: kind})


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
