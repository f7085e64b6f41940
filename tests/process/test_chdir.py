"""The program is elsewhere than its configuration: `chdir`, what it puts on Python's path, and what [environ] adds to it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starter import ROOT, SHAPES, Server, Start, wait_for

TELLS = """
import json, os, sys, time
import {imported}

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    told = os.getcwd(), sys.path[:3], {imported}.NAME, time.tzname[0], os.environ.get("PYTHONPATH", "")
    return [repr(told).encode()]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A program as a service has it: an ini file in one directory, a package with an application in another."""
    program = tmp_path / "opt" / "site"
    (program / "pages").mkdir(parents=True)
    (program / "pages" / "__init__.py").touch()
    (program / "pages" / "wsgi.py").write_text(TELLS.format(imported="beside"))
    (program / "beside.py").write_text("NAME = 'beside'\n")
    (program / "app.py").write_text(TELLS.format(imported="beside"))
    (tmp_path / "etc").mkdir()
    return program


def ini(site: Path, text: str) -> str:
    """Write the configuration; return its name as seen from the directory of the start."""
    (site.parents[1] / "etc" / "site.ini").write_text(f"[http]\nbind = 127.0.0.1:0\n{text}")
    return "etc/site.ini"


def told(server: Server) -> tuple[str, list[str], str, str, str]:
    answer: tuple[str, list[str], str, str, str] = eval(server.get()[1])
    return answer


def poorhttp(directory: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and what was said."""
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("application", "chdir"),
    [("pages.wsgi", "DIRECTORY/opt/site"), ("app.py", "../opt/site"), ("pages/wsgi.py:application", "../opt/site/")],
)
def test_the_program_of_an_ini_file_is_in_chdir(launch: Start, site: Path, application: str, chdir: str) -> None:
    chdir = chdir.replace("DIRECTORY", str(site.parents[1]))
    name = ini(site, f"application = {application}\nchdir = {chdir}\n")
    server = launch("-c", name)
    server.await_address()
    place, path, imported, _, _ = told(server)
    assert (place, path[0], imported) == (str(site), str(site), "beside")
    for command in ("check", "-c", name), ("-c", name, "--check-config"):
        assert poorhttp(site.parents[1], *command)[0] == 0
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert told(server)[0] == str(site)
    assert server.stop() == 0


def test_the_application_of_the_command_line_is_in_chdir_too(launch: Start, site: Path) -> None:
    """Other paths there are seen from the directory of the start."""
    for shape in "1x1", "2x1":
        server = launch("app.py", "--chdir=opt/site", "--bind=127.0.0.1:0", "--accesslog=access.log", *SHAPES[shape])
        server.await_address()
        assert told(server)[0] == str(site)
        assert server.stop() == 0
        (site.parents[1] / "access.log").unlink()


def test_without_an_application_the_table_of_chdir_is_served(launch: Start, site: Path) -> None:
    table = "from poorhttp import http\ndef page(req):\n    req.write('table')\n    return http.DONE\n"
    (site / "dispatch_table.py").write_text(table + "handlers = {'/': (http.METHOD_GET, page)}\n")
    server = launch("--chdir=opt/site", "--bind=127.0.0.1:0")
    server.await_address()
    assert server.get() == (200, "table")
    assert server.stop() == 0


def test_modules_of_chdir_are_there_for_a_file_in_a_directory_below(launch: Start, site: Path) -> None:
    (site / "scripts").mkdir()
    (site / "scripts" / "run.py").write_text(TELLS.format(imported="beside"))
    server = launch("scripts/run.py", "--chdir=opt/site", "--bind=127.0.0.1:0")
    server.await_address()
    assert told(server)[:3] == (str(site), [str(site / "scripts"), str(site), str(site.parents[1])], "beside")
    assert server.stop() == 0


def test_the_variables_of_the_ini_file_count(launch: Start, site: Path) -> None:
    """PYTHONPATH and TZ, which Python has read when the ini file is."""
    for name in "one", "two":
        (site / name).mkdir()
        (site / name / "far.py").write_text(f"NAME = {name!r}\n")
    (site / "app.py").write_text(TELLS.format(imported="far"))
    environ = "[environ]\nPYTHONPATH = one:two\nTZ = XYZ-9\nPYTHONHASHSEED = 1\nLD_PRELOAD =\n"
    name = ini(site, f"chdir = {site}\napplication = app.py\n{environ}")
    server = launch("-c", name)
    server.await_address()
    assert told(server) == (str(site), [str(site), str(site / "one"), str(site / "two")], "one", "XYZ", "one:two")
    note = (
        "note: [environ] sets PYTHONHASHSEED, LD_PRELOAD, which this process has read before: set it where poorhttp is"
    )
    assert note in server.said
    assert server.stop() == 0


@pytest.mark.parametrize("command", [("check",), ("--check-config",), ()])
def test_a_chdir_that_is_not_there(site: Path, command: tuple[str, ...]) -> None:
    name = ini(site, f"chdir = {site}/none\napplication = app.py\n")
    code, said = poorhttp(site.parents[1], *command, "-c", name)
    assert code == 2
    assert f"error: cannot go to chdir = {site}/none: No such file or directory\nhint: is it a directory, and" in said


@pytest.mark.parametrize("application", [".", "none.py"])
@pytest.mark.parametrize("command", [("check",), ("--check-config",), ()])
def test_a_chdir_without_the_application_is_told_of(site: Path, command: tuple[str, ...], application: str) -> None:
    (site / "www").mkdir()
    code, said = poorhttp(
        site.parents[1], *command, "-c", ini(site, f"chdir = {site}/www\napplication = {application}\n")
    )
    assert code == 3
    told = {".": f"{site}/www: no dispatch_table.py in this directory", "none.py": "none.py does not exist"}
    assert f"error: {told[application]}\nhint: " in said
    assert f"; chdir is set, so application is looked for in {site}/www\n" in said


def test_a_missing_chdir_is_told_of(site: Path) -> None:
    code, said = poorhttp(site.parents[1], "-c", ini(site, "application = pages.wsgi\n"))
    assert code == 3
    assert (
        f"error: no module 'pages' in {site.parents[1]}/etc or on Python's path\nhint: set chdir to its directory, or"
        in said
    )


def test_chdir_may_be_a_link_to_a_release(launch: Start, site: Path) -> None:
    """A service manager, which keeps no PWD, names the link so; what runs stays with its own release."""
    shutil.copytree(site, site.parent / "next")
    link = site.parent / "current"
    link.symlink_to("site")
    name = ini(site, f"chdir = {link}\napplication = pages.wsgi\n")
    server = launch("-c", name)
    server.await_address()
    assert told(server)[:2] == (str(site), [str(site), *told(server)[1][1:]])
    (site.parent / "new").symlink_to("next")
    (site.parent / "new").rename(link)
    assert told(server)[0] == str(site)
    server.send(signal.SIGHUP)
    wait_for(lambda: told(server)[0] == str(site.parent / "next"), "the next release")
    link.unlink()
    server.send(signal.SIGHUP)
    server.await_text(f"cannot go to chdir = {link}: No such file or directory")
    assert told(server)[0] == str(site.parent / "next")
    assert server.stop() == 0


def test_under_dev(launch: Start, site: Path) -> None:
    shutil.copytree(site, site.parent / "next")
    link = site.parent / "current"
    link.symlink_to("site")
    server = launch("dev", "-c", ini(site, f"chdir = {link}\napplication = pages.wsgi\n"))
    server.await_address()
    server.await_text("loaded in")
    assert told(server)[0] == str(site)
    for number in range(1, 30):  # chdir is not of the application's doing, so what is not the author's is prepared
        wait_for(lambda: len(server.workers()) >= 3, "a zygote and a process that waits")
        (site / "beside.py").write_text(f"NAME = 'edit {number}'\n")
        assert told(server)[2] == f"edit {number}"
        if " ms (zygote" in server.said or " ms (checkpoint" in server.said:
            break
        time.sleep(0.1 * number)
    else:
        pytest.fail("always cold")
    (site.parent / "new").symlink_to("next")
    (site.parent / "new").rename(link)
    assert told(server)[:3:2] == (str(site.parent / "next"), "beside")
    (site.parent / "next" / "beside.py").write_text("NAME = 'edited'\n")
    assert told(server)[2] == "edited"
    link.unlink()
    assert "cannot go to chdir" in server.get()[1]
    link.symlink_to("site")
    assert told(server)[0] == str(site)
    assert server.stop() == 0


@pytest.mark.parametrize("is_link", [False, True], ids=["a directory", "a link"])
def test_under_dev_a_chdir_that_comes(launch: Start, site: Path, is_link: bool) -> None:
    server = launch("dev", "-c", ini(site, f"chdir = {site.parent}/other\napplication = app.py\n"))
    server.await_address()
    server.await_text("cannot go to chdir")
    assert server.get()[0] == 500
    if is_link:
        (site.parent / "other").symlink_to("site")
    else:
        site.rename(site.parent / "other")
    assert told(server)[2] == "beside"
    assert server.stop() == 0
