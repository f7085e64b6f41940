"""`poorhttp.stdlib`: what the server has of Python stays as it was, and the application finds its own modules.

Most of it in interpreters of their own: what is tried out there changes the standard library.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from poorhttp import stdlib

ROOT = Path(__file__).parents[2]

NEEDS_GEVENT = pytest.mark.skipif(not find_spec("gevent"), reason="to be installed: pip install -e '.[test]'")


def told(directory: Path, code: str, *options: str) -> str:
    """What this code prints, run in a directory with `poorhttp` on the path."""
    (directory / "program.py").write_text(f"import sys\nsys.path.append({str(ROOT)!r})\n{textwrap.dedent(code)}")
    command = [sys.executable, *options, "program.py"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / f"{name}.py").write_text(f"WHO = 'own {name}'\n")


def test_functions_that_were_replaced_before_and_after_are_those_of_python(tmp_path: Path) -> None:
    """Before: in a program that imports poorhttp after gevent has changed everything."""
    code = """
        import _thread, os, select, time

        def replace():
            for place, name in (os, "fork"), (time, "sleep"), (select, "poll"), (_thread, "start_new_thread"):
                setattr(place, name, None)

        MOMENT
        import poorhttp.stdlib as lean
        replace()
        found = lean.os.fork, lean.time.sleep, lean.select.poll, lean.thread.start_new_thread
        print(all(map(callable, found)))
    """
    assert told(tmp_path, code.replace("MOMENT", "")) == "True"
    assert told(tmp_path, code.replace("MOMENT", "replace()")) == "True"


def test_os_is_that_of_python_in_all_else() -> None:
    import os

    assert stdlib.os.environ is os.environ and stdlib.os.path is os.path
    assert set(vars(stdlib.os)) >= {name for name in vars(os) if not name.startswith("__")}
    assert stdlib.os.stat("/").st_ino == os.stat("/").st_ino and stdlib.os.fsencode("\udc80") == b"\x80"


def test_clocks_are_those_of_the_kernel() -> None:
    import time

    assert abs(stdlib.time.time() - time.time()) < 1
    assert abs(stdlib.time.monotonic() - time.monotonic()) < 1
    assert stdlib.time.strftime("%Y-%m-%d", time.gmtime(0)) == "1970-01-01"
    assert stdlib.time.strftime("%Y-%m-%d %H") in {
        time.strftime("%Y-%m-%d %H", time.localtime(time.time() - 1)),
        time.strftime("%Y-%m-%d %H"),
    }


def test_the_late_modules_are_imported_when_asked_for(tmp_path: Path) -> None:
    code = """
        before = set(sys.modules)
        import poorhttp.stdlib as lean
        assert not (set(sys.modules) - before) & set(lean.LATE), set(sys.modules) - before
        lean.make_way()
        from poorhttp.stdlib import json, urllib
        print(json.dumps(urllib.parse.quote("a b")), json is sys.modules["json"])
    """
    assert told(tmp_path, code, "-I", "-S") == '"a%20b" True'
    with pytest.raises(AttributeError, match="has no attribute 'email'"):
        stdlib.email  # type: ignore[attr-defined]  # noqa: B018


def test_the_directories_before_those_of_python_are_held_back_for_a_while(tmp_path: Path) -> None:
    write(tmp_path, "json", "token", "html")
    code = """
        import poorhttp.stdlib as lean
        before = sys.path[:]
        lean.hold_back()
        import html, json
        assert before[0] not in sys.path and before[-1] in sys.path, sys.path
        assert json.dumps([]) == "[]"
        lean.make_way(DIRECTORY)
        assert sys.path == before, sys.path
        from poorhttp.stdlib import json as pythons, tokenize
        assert pythons.dumps([]) == "[]" and tokenize.COMMENT
        import html, json, token
        print(html.WHO, json.WHO, token.WHO, sep=", ")
    """
    for directory in "''", repr(str(tmp_path)):
        assert told(tmp_path, code.replace("DIRECTORY", directory)) == "own html, own json, own token"


def test_a_program_that_has_imported_its_own_keeps_them(tmp_path: Path) -> None:
    """One that calls `poorhttp.run`: nothing is held back, and its modules are there before."""
    write(tmp_path, "json", "token", "select")
    code = """
        import json, token, select
        import poorhttp.stdlib as lean
        lean.make_way()
        assert lean.json.dumps([]) == "[]" and lean.select.poll and lean.tokenize.COMMENT
        assert sys.modules["json"] is json and sys.modules["token"] is token
        import json, token, select
        print(json.WHO, token.WHO, select.WHO, sep=", ")
    """
    assert told(tmp_path, code) == "own json, own token, own select"


def test_what_hides_nothing_costs_nothing(tmp_path: Path) -> None:
    """A directory without modules, files of other kinds, and names that nothing of Python's needs."""
    for name in "html", "email", "test":
        (tmp_path / name).mkdir()
    (tmp_path / "test" / "__init__.py").touch()
    (tmp_path / "token.txt").touch()
    (tmp_path / "time.py").touch()
    code = """
        import poorhttp.stdlib as lean
        lean.hold_back()
        lean.make_way()
        print("traceback" in vars(lean))
    """
    assert told(tmp_path, code) == "False"
    (tmp_path / "token.py").touch()
    assert told(tmp_path, code) == "True"
    (tmp_path / "token.py").unlink()
    (tmp_path / "html" / "__init__.py").touch()
    assert told(tmp_path, code) == "True"


def test_modules_of_other_programs_are_not_forgotten(tmp_path: Path) -> None:
    """What the interpreter or the program had imported before the server came stays what it is."""
    code = """
        import json, token
        import poorhttp.stdlib as lean
        import html, difflib
        open("json.py", "w").close(), open("html.py", "w").close()
        lean.make_way()
        print(sys.modules["json"] is json, "html" in sys.modules, sys.modules["difflib"] is difflib)
    """
    assert told(tmp_path, code) == "True False True"


@NEEDS_GEVENT
def test_a_library_that_has_made_greenlets_is_known(tmp_path: Path) -> None:
    code = """
        import poorhttp.stdlib as lean
        print(repr(lean.maker_of_greenlets()))
        from gevent import monkey
        MOMENT
        print(repr(lean.maker_of_greenlets()))
    """
    assert told(tmp_path, code.replace("MOMENT", "")).split() == ["''", "''"]
    assert told(tmp_path, code.replace("MOMENT", "monkey.patch_all()")).split() == ["''", "'gevent'"]


@NEEDS_GEVENT
def test_it_serves_in_a_program_that_has_changed_everything_before(tmp_path: Path) -> None:
    code = """
        from gevent import monkey, sleep
        monkey.patch_all()
        import os, signal, socket
        import poorhttp

        def application(environ, start_response):
            sleep(0.01)
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"served"]

        def ask():
            client = socket.socket(socket.AF_UNIX)
            while client.connect_ex("server.sock"):
                sleep(0.01)
            client.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            while not (answer := client.recv(4096)).endswith(b"served"):
                pass
            print("served", flush=True)
            os.kill(os.getppid(), signal.SIGTERM)
            os._exit(0)

        if not os.fork():
            ask()
        poorhttp.run(application, bind="unix:server.sock", type=TYPE, processes=1)
        print("over")
    """
    for kind in "'threading'", "'forking'":
        assert told(tmp_path, code.replace("TYPE", kind)) == "served\nover", kind


def test_the_list_of_late_modules_is_what_is_asked_of_it() -> None:
    """And each can be imported here."""
    assert json.dumps([getattr(stdlib, name.partition(".")[0]).__name__ for name in stdlib.LATE])
    assert sorted(stdlib.__all__) == sorted(
        {name.partition(".")[0] for name in stdlib.LATE}
        | {"nameless", "os", "public_os", "select", "signal", "socket", "thread", "time"}
    )
