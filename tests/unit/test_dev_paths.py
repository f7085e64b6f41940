"""The owner of a path, the links on the way to it, and the bytecode that may be loaded for it."""

import os
import sys
import time

import pytest

from poorhttp import stdlib
from poorhttp.dev.watch import bytecode, paths, reports


def test_what_is_not_the_authors_is_not_told():
    for path in (
        os.__file__,
        pytest.__file__,
        reports.__file__,
        "/proc/self/status",
        "/dev/null",
        "/a/.git/config",
        "/a/__pycache__/b.pyc",
    ):
        assert not paths.is_authors(path)
    for path in ("/a/app.py", "/usr/src/app/app.py", "/home/me/.env", "/etc/app.ini", "/dev/shm/app.py"):
        assert paths.is_authors(path)


def test_what_is_only_linked_into_the_packages_is_the_authors(tmp_path):
    packages = tmp_path / "site-packages"
    packages.mkdir()
    for name, place in ("editable", "src"), ("cached", ".cache/installer"), ("nested", "store/site-packages"):
        (tmp_path / place).mkdir(parents=True)
        (packages / name).symlink_to(tmp_path / place)
    (packages / "single.py").symlink_to(tmp_path / "src" / "single.py")
    for name in "editable/part.py", "editable/", "single.py":
        assert paths.is_authors(f"{packages}/{name}")
    for name in "cached/part.py", "nested/part.py", "copied.py", "editable/__pycache__/part.pyc", "":
        assert not paths.is_authors(f"{packages}/{name}")


def test_the_way_up_from_a_link_is_that_of_the_kernel(tmp_path):
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/inner")
    (tmp_path / "far" / "page.txt").write_text("")
    (tmp_path / "page.txt").symlink_to("link/../page.txt")
    assert [*paths.links_to(str(tmp_path / "page.txt"))] == [
        str(tmp_path / "page.txt"),
        str(tmp_path / "far" / "page.txt"),
    ]


def test_bytecode_is_believed_once_it_is_surely_younger(tmp_path, monkeypatch):
    source = tmp_path / "module.py"
    source.write_text("")
    cache = tmp_path / "__pycache__" / f"module.{__import__('sys').implementation.cache_tag}.pyc"
    cache.parent.mkdir()
    assert not bytecode.is_settled(str(source))  # just written: nothing is kept of it
    cache.write_text("")
    assert not bytecode.is_settled(str(source)) and cache.exists()
    os.utime(cache, (time.time() + 3, time.time() + 3))
    assert bytecode.is_settled(str(source))
    os.utime(source, (1_000_000_000, 1_000_000_000))  # an older time, but changed just now
    os.utime(cache, (time.time() + 1, time.time() + 1))
    assert not bytecode.is_settled(str(source))
    later = time.time() + 60
    monkeypatch.setattr(stdlib.time, "time", lambda: later)
    assert bytecode.is_settled(str(source)) and not cache.exists()  # what is written now may be believed later
    monkeypatch.setattr("sys.pycache_prefix", "/elsewhere")
    assert not bytecode.is_settled(str(source))


def test_bytecode_is_not_believed_behind_a_link_that_was_switched_since(tmp_path, monkeypatch):
    monkeypatch.setattr(bytecode, "SETTLED", 0.02)
    for release in "old", "new":
        (tmp_path / release).mkdir()
        (tmp_path / release / "module.py").write_text("")
        os.utime(tmp_path / release / "module.py", (1_000_000_000, 1_000_000_000))
    source, link = tmp_path / "module.py", tmp_path / "current"
    source.symlink_to("current/module.py")
    link.symlink_to("old")
    cache = tmp_path / "__pycache__" / f"module.{sys.implementation.cache_tag}.pyc"
    cache.parent.mkdir()
    await_time(os.lstat(link).st_ctime + 0.1)
    cache.write_text("")
    assert bytecode.is_settled(str(source)) and cache.exists()
    await_time(os.stat(cache).st_mtime + 0.1)
    link.unlink()
    link.symlink_to("new")
    assert not (bytecode.is_settled(str(source)) and cache.exists())


def await_time(moment):
    while time.time() < moment:
        time.sleep(0.01)
