"""Autoreload: what goes and comes again, links, and what programs write that the application starts."""

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starter import Server, Start, wait_for

from poorhttp.dev.serve.supervisor import RESTLESS

SERVE = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [TEXT.encode()]
"""

Served = Callable[..., Server]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that is not the application's."""
    made = tmp_path / "elsewhere"
    made.mkdir()
    return made


@pytest.fixture
def served(launch: Start, tmp_path: Path) -> Served:
    """Serve an application in a directory of its own, with TEXT as this code makes it."""

    def begin(source: str, **environ: str) -> Server:
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / "app.py").write_text(source + SERVE)
        server = launch("dev", str(tmp_path / "own" / "app.py"), "--port=0", **environ)
        server.await_address()
        server.await_text("loaded ")
        return server

    return begin


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def serves(server: Server, text: str) -> None:
    """The very next answer is that of what is there now."""
    assert server.get() == (200, text)


def removed(path: Path) -> None:
    shutil.rmtree(path)


def moved(path: Path) -> None:
    path.rename(path.with_name("aside"))


@pytest.mark.parametrize("go", [removed, moved])
@pytest.mark.parametrize("what", ["a package", "a template", "what leads there"])
def test_a_directory_elsewhere_that_comes_again(
    served: Served, place: Path, go: Callable[[Path], None], what: str
) -> None:
    path = {"a package": "lib/part/__init__.py", "a template": "lib/deep/page.txt", "what leads there": "lib/page.txt"}[
        what
    ]
    is_package = what == "a package"
    write(place / path, "TEXT = 'one'" if is_package else "one")
    (place / "link").symlink_to("lib")
    read = f"TEXT = open({str(place / path)!r}).read()\n"
    if is_package:
        read = f"import sys\nsys.path.insert(0, {str(place / 'lib')!r})\nfrom part import TEXT\n"
    elif what == "what leads there":
        read = f"TEXT = open({str(place / 'link' / 'page.txt')!r}).read()\n"
    server = served(read)
    serves(server, "one")
    go(place / "lib")
    assert server.get()[0] == 500
    write(place / path, "TEXT = 'two'" if is_package else "two")
    serves(server, "two")
    write(place / path, "TEXT = 'three'" if is_package else "three")
    serves(server, "three")


def test_another_directory_with_the_same_content_is_watched_too(served: Served, place: Path) -> None:
    write(place / "lib" / "deep" / "page.txt", "one")
    write(place / "next" / "deep" / "page.txt", "one")
    server = served(f"TEXT = open({str(place / 'lib' / 'deep' / 'page.txt')!r}).read()\n")
    serves(server, "one")
    time.sleep(1)  # contents are taken down half a second after the last word
    (place / "lib").rename(place / "aside")
    (place / "next").rename(place / "lib")
    serves(server, "one")
    write(place / "lib" / "deep" / "page.txt", "two")
    serves(server, "two")


def test_what_was_tried_in_vain_where_no_directory_was(served: Served, place: Path) -> None:
    path = place / "deep" / "deeper" / "page.txt"
    server = served(f"try:\n    TEXT = open({str(path)!r}).read()\nexcept OSError:\n    TEXT = 'none'\n")
    serves(server, "none")
    write(path, "one")
    serves(server, "one")


def test_a_release_behind_a_link_that_is_made_again(launch: Start, tmp_path: Path) -> None:
    write(tmp_path / "release" / "app.py", "TEXT = 'one'" + SERVE)
    (tmp_path / "current").symlink_to("release")
    server = launch("dev", str(tmp_path / "current" / "app.py"), "--port=0")
    server.await_address()
    server.await_text("loaded in")
    serves(server, "one")
    shutil.rmtree(tmp_path / "release")
    assert server.get()[0] == 500
    write(tmp_path / "release" / "app.py", "TEXT = 'two'" + SERVE)
    serves(server, "two")


def test_a_link_to_a_package_that_was_tried_in_vain(served: Served, tmp_path: Path, place: Path) -> None:
    write(place / "part" / "__init__.py", "TEXT = 'one'")
    server = served("try:\n    from part import TEXT\nexcept ImportError:\n    TEXT = 'none'\n")
    serves(server, "none")
    (tmp_path / "own" / "part").symlink_to(place / "part")
    serves(server, "one")
    write(place / "part" / "__init__.py", "TEXT = 'two'")
    serves(server, "two")
    (tmp_path / "own" / "part").unlink()
    serves(server, "none")


def test_up_from_behind_a_link(served: Served, tmp_path: Path, place: Path) -> None:
    """The kernel goes up from where the link leads."""
    write(place / "inner" / "nothing", "")
    write(place / "page.txt", "one")
    (tmp_path / "link").symlink_to(place / "inner")
    server = served(f"TEXT = open({str(tmp_path / 'link' / '..' / 'page.txt')!r}).read()\n")
    serves(server, "one")
    write(place / "page.txt", "two")
    serves(server, "two")


def test_what_is_installed_by_a_link_is_the_authors(served: Served, tmp_path: Path, place: Path) -> None:
    packages = tmp_path / "lib" / "site-packages"
    write(place / "part" / "__init__.py", "from part.inner import TEXT")
    write(place / "part" / "inner.py", "TEXT = 'one'")
    write(packages / "other" / "__init__.py", "")
    (packages / "part").symlink_to(place / "part")
    server = served("import other\nfrom part import TEXT\n", PYTHONPATH=f"{packages}:{Path(__file__).parents[2]}")
    serves(server, "one")
    for text in "two", "three":
        write(place / "part" / "inner.py", f"TEXT = {text!r}")
        serves(server, text)
    write(packages / "other" / "__init__.py", "1 / 0")  # that is not
    serves(server, "three")


def test_what_a_program_writes_at_each_load_is_let_be(served: Served, tmp_path: Path) -> None:
    """Also where the load is over before that is looked at."""
    for name in "stamp.txt", "part.txt":
        write(tmp_path / name, "zero")
    server = served(
        "import subprocess\n"
        "STAMP, TEXT = (open(name).read() for name in ('stamp.txt', 'part.txt'))\n"
        "subprocess.run(['/bin/sh', '-c', 'date +%s%N > stamp.txt'])\n",
    )
    server.await_text("stamp.txt changes whenever the application is loaded; not watched any more")
    write(tmp_path / "part.txt", "one")
    wait_for(lambda: server.get() == (200, "one"), "the end of the loads")
    write(tmp_path / "part.txt", "two")
    serves(server, "two")
    server.await_text("reloaded part.txt")  # and so all lines about those before are read
    assert server.said.count("reloaded stamp.txt") <= RESTLESS


READS = "try:\n    TEXT = open({!r}).read()\nexcept OSError as error:\n    TEXT = str(error.errno)\n"


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_file_in_the_place_of_a_directory(served: Served, place: Path, seconds: float) -> None:
    path = place / "page.txt"
    path.mkdir()
    server = served(READS.format(str(path)))
    serves(server, str(errno.EISDIR))
    (path / "part.txt").write_text("what is in it is not asked for")
    (path / "part.txt").unlink()
    path.rmdir()
    time.sleep(seconds)  # so that it is looked at in between, or not
    write(path, "one")
    serves(server, "one")
    write(path, "two")
    serves(server, "two")
    path.unlink()
    path.mkdir()
    serves(server, str(errno.EISDIR))


def test_a_directory_in_the_place_of_nothing(served: Served, place: Path) -> None:
    path = place / "page.txt"
    server = served(READS.format(str(path)))
    for _ in range(2):
        serves(server, str(errno.ENOENT))
        path.mkdir()
        serves(server, str(errno.EISDIR))
        path.rmdir()
    serves(server, str(errno.ENOENT))


@pytest.mark.parametrize("seconds", [0.0, 0.3])
@pytest.mark.parametrize("named", [("app.py",), ()], ids=["named", "found"])
def test_an_application_in_the_place_of_a_directory(
    launch: Start, tmp_path: Path, named: tuple[str, ...], seconds: float
) -> None:
    (tmp_path / "app.py").mkdir()
    server = launch("dev", *named, "--port=0")
    server.await_address()
    assert server.get()[0] == 500
    (tmp_path / "app.py").rmdir()
    time.sleep(seconds)
    write(tmp_path / "app.py", "TEXT = 'one'" + SERVE)
    serves(server, "one")
    write(tmp_path / "app.py", "TEXT = 'two'" + SERVE)
    serves(server, "two")
