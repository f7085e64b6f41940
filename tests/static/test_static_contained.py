"""Nothing outside of the document root is reached, and no descriptor is left open."""

import contextlib
import io
import os
import re
import time
from wsgiref.util import FileWrapper

import pytest
from dispatching import call, table
from documents import DATA, SECRET, get
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.dispatch import (
    application,
    contained,
    file_slice,
)
from poorhttp.dispatch.contained import Root
from poorhttp.dispatch.percent import NAME, encoded, raw
from poorhttp.dispatch.static import is_hidden

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
