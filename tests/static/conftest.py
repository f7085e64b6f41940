"""Fixtures of a document root: `place` with its files, `app` that serves them, `listed` that lists directories too."""

import gzip
import os
from pathlib import Path

import pytest
from dispatching import table
from documents import DATA, OLD, SECRET

from poorhttp.dispatch import (
    application,
    contained,
)


@pytest.fixture(scope="module", params=["engine", "python"], autouse=True)
def opened_by(request):
    """Files are opened by the engine, as under poorhttp, or by Python, as under other servers."""
    from poorhttp import _engine  # not in the process that only hands the tests out: a server is known by the engine

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
