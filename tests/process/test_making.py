"""The words for whoever begins: `poorhttp init` writes what `poorhttp dev` serves, and `poorhttp check` finds no fault in."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from starter import Start, lives, wait_for

from poorhttp.process.start import dry_run_child

OK = "    start_response('200 OK', [('Content-Type', 'text/plain')])\n"


def poorhttp(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    command = [sys.executable, "-m", "poorhttp", *arguments]
    done = subprocess.run(command, check=False, cwd=directory, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout, done.stderr


def check(directory: Path, body: str, *arguments: str) -> tuple[int, str]:
    """Exit code and the last lines told (without a traceback) of `check` for an application with this body."""
    (directory / "app.py").write_text(f"def application(environ, start_response):\n{body}")
    code, _, told = poorhttp(directory, "check", "app.py", "--port=0", *arguments)
    return code, "\n".join(line for line in told.splitlines() if line.startswith(("error", "hint", "note", "GET")))


def test_what_init_writes_is_served_and_has_no_fault(launch: Start, tmp_path: Path) -> None:
    code, told, _ = poorhttp(tmp_path, "init", "hello")
    assert code == 0
    assert told.splitlines() == [
        "wrote hello/dispatch_table.py",
        "wrote hello/poorhttp.ini",
        "poorhttp dev -c hello/poorhttp.ini    serves it while you write",
    ]
    directory = tmp_path / "hello"
    assert sorted(each.name for each in directory.iterdir()) == ["dispatch_table.py", "poorhttp.ini"]
    code, told, noted = poorhttp(directory, "check", "-c", "poorhttp.ini", "--port=0")
    assert (code, told) == (0, "ok\n")
    assert noted.startswith("GET / is answered 200 OK, in ")
    server = launch("dev", "hello", "--port=0")
    server.await_address()
    status, body = server.get()
    assert status == 200
    assert "<h1>It works</h1>" in body
    table = directory / "dispatch_table.py"
    table.write_text(table.read_text().replace("It works", "It still works"))
    assert "<h1>It still works</h1>" in server.get()[1]


def test_check_shows_what_an_application_logs_that_answers_500(tmp_path: Path) -> None:
    """As a dispatch table and Flask do, instead of failing."""
    (tmp_path / "dispatch_table.py").write_text(
        "from poorhttp import http\ndef f(req):\n    req.missing\nhandlers = {'/': (http.METHOD_GET, f)}\n"
    )
    code, _, told = poorhttp(tmp_path, "check", "--port=0")
    assert code == 3
    assert 'dispatch_table.py", line 3, in f' in told and "AttributeError: 'Request' object has no" in told
    assert "error: GET / is answered 500 " in told


@pytest.mark.parametrize("directory", [".", "site"])
@pytest.mark.parametrize("name", ["app.py", "main.py", "project/wsgi.py", "dispatch_table.py"])
def test_beside_an_application_init_writes_the_ini_file_alone(tmp_path: Path, name: str, directory: str) -> None:
    """Else `dev` would serve the new dispatch table in its place."""
    place = tmp_path / directory
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(f"def application(environ, start_response):\n{OK}    return [b'mine']\n")
    if name == "project/wsgi.py":
        (place / "manage.py").touch()
    elif name == "dispatch_table.py":
        table = "from poorhttp import http\ndef mine(req):\n    req.write('mine')\n    return http.DONE\n"
        (place / name).write_text(table + "handlers = {'/': (http.METHOD_GET, mine)}\n")
    before = sorted(place.rglob("*"))
    code, told, _ = poorhttp(tmp_path, "init", directory)
    prefix = "" if directory == "." else "site/"
    word = "" if directory == "." else " site" if name == "dispatch_table.py" else f" site/{name}"
    assert (code, told.splitlines()) == (
        0,
        [
            f"wrote {prefix}poorhttp.ini",
            f"poorhttp dev -c {prefix}poorhttp.ini    serves {prefix}{name}, which was there, while you write",
        ],
    )
    assert sorted(place.rglob("*")) == sorted([*before, place / "poorhttp.ini"])
    for command in ("check", "-c", f"{prefix}poorhttp.ini", "--port=0"), ("check", *word.split(), "--port=0"):
        code, _, told = poorhttp(tmp_path, *command)
        assert code == 0 and "GET / is answered 200 OK, in 4 bytes" in told, told


@pytest.mark.parametrize("name", ["dispatch_table.py", "poorhttp.ini"])
def test_init_leaves_what_is_there(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("elsewhere")  # not even there
    code, _, told = poorhttp(tmp_path, "init")
    assert code == 2
    assert told == f"error: {name} exists already\nhint: name a directory for a new application\n"
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_init_takes_a_place_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert poorhttp(tmp_path, "init", "--port=1")[0] == 2
    assert poorhttp(tmp_path, "init", "-c", "poorhttp.ini")[0] == 2
    code, _, told = poorhttp(tmp_path, "init", "file")
    assert code == 2
    assert told == "error: cannot write file: File exists\nhint: name another directory\n"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("    return 1 / 0\n", "error: app.py:2: GET / fails: ZeroDivisionError: division by zero"),
        (OK + "    assert not environ\n", "error: app.py:3: GET / fails: AssertionError"),
        (OK + "    raise SystemExit(0)\n", "error: app.py:3: GET / fails: SystemExit: 0"),
        (OK + "    yield b'a'\n    no\n", "error: app.py:4: GET / fails: NameError: name 'no' is not defined"),
        ("    start_response(200, [])\n", "error: app.py:2: the answer to GET / breaks PEP 3333: Status must be"),
        (
            OK + OK + "    return []\n",
            "error: app.py:3: the answer to GET / breaks PEP 3333: start_response was called",
        ),
        (
            OK.replace(")])", "), ('X-A', '\\u0161')])"),
            "error: app.py:2: the answer to GET / breaks PEP 3333: a character of a header value is not latin-1",
        ),
        (
            OK.replace(")])", "), ('Content-Length', 'ab')])"),
            "error: app.py:2: the answer to GET / breaks PEP 3333: Content-Length is not a number",
        ),
        (OK + "    return ['a']\n", "error: app.py:1: the answer to GET / breaks PEP 3333: Iterator yielded"),
        ("    return []\n", "error: app.py:1: the answer to GET / breaks PEP 3333: start_response was not called"),
        (
            OK.replace(")])", "), ('Content-Length', '5')])") + "    return [b'a']\n",
            "error: app.py:1: the answer to GET / breaks PEP 3333: the body has 1 bytes, and Content-Length says 5",
        ),
        (
            OK.replace(")])", "), ('Content-Length', '1')])") + "    return [b'abc']\n",
            "error: app.py:1: the answer to GET / breaks PEP 3333: the body has 3 bytes, and Content-Length says 1",
        ),
        (OK.replace("200 OK", "503 No") + "    return [b'a']\n", "error: GET / is answered 503 No, in 1 bytes"),
    ],
)
def test_a_fault_is_told_with_its_place(tmp_path: Path, body: str, told: str) -> None:
    code, line = check(tmp_path, body)
    assert code == 3
    assert line.startswith(told)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("    import time\n    time.sleep(100)\n", 3),
        # With a call in it: CPython 3.10 lets no signal in between `while` and `try`.
        ("    while True:\n        try:\n            int('x')\n        except Exception:\n            pass\n", 0),
        (OK + "    yield b'a'\n    while True:\n        pass\n", 0),
    ],
)
def test_a_request_without_an_end_is_told_with_its_place(tmp_path: Path, body: str, line: int) -> None:
    code, told = check(tmp_path, body, "--request-timeout=0.5")
    assert code == 3
    assert told.startswith(f"error: app.py:{line or ''}"), told
    assert ": GET / was not answered in 0.5 s\nhint: the application must return; " in told, told
    assert told.count("error: ") == 1, told


def test_an_application_that_ends_the_process_is_told_when(tmp_path: Path) -> None:
    code, told = check(tmp_path, "    import os\n    os._exit(0)\n")
    assert code == 3
    assert told.endswith("app.py ends the process when it is called\nhint: it must return"), told


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("os.abort()", "app.py:{line}: {died}: killed by SIGABRT"),
        ("ctypes.string_at(0)", "app.py:{line}: {died}: killed by SIGSEGV"),
        ("os._exit(5)", "{died}: exit code 5{last}"),
    ],
)
def test_an_application_that_dies_is_told_with_its_place(tmp_path: Path, fault: str, reason: str) -> None:
    body = f"    import os, ctypes\n    {fault}\n"
    code, told = check(tmp_path, body)
    expected = reason.format(line=3, died="the process died while it called the application", last="")
    assert (code, told.splitlines()[0]) == (3, f"error: {expected}")
    (tmp_path / "app.py").write_text(f"import os, ctypes\n{fault}\n")
    for command in ("check", "app.py", "--port=0"), ("app.py", "--check-config"):
        code, _, told = poorhttp(tmp_path, *command)
        last = "; the last file it imported was app.py"
        expected = reason.format(line=2, died="the process died while it loaded the application", last=last)
        assert (code, told.splitlines()) == (3, [f"error: {expected}", f"hint: {dry_run_child.FAULTS}"])


@pytest.mark.parametrize("command", [("check", "--port=0"), ("--check-config",)])
def test_an_application_that_ends_the_process_on_import_is_told(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text("import json, first, helper\n")
    (tmp_path / "first.py").write_text("exec('x = 1')\n")
    last = "; the last file it imported was helper.py"
    reasons = {0: "app.py ends the process when it is imported"}
    helper = tmp_path / "helper.py"
    for number in 70, 70, 0:  # the second time from bytecode
        text = f"import os\nos._exit({number})\n"
        if not helper.exists() or helper.read_text() != text:
            helper.write_text(text)
        code, _, told = poorhttp(tmp_path, *command, "app.py")
        reason = reasons.get(number, f"the process died while it loaded the application: exit code {number}")
        assert (code, told.splitlines()[0]) == (3, f"error: {reason}{last}")


@pytest.mark.parametrize("command", [("check", "--port=0"), ("--check-config",)])
@pytest.mark.parametrize(
    ("preparation", "said"),
    [
        ("", "stopped while it loaded the application"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)", "the application did not stop in 1 s; its process is killed"),
    ],
)
def test_ctrl_c_is_told_with_the_place_of_the_application(
    tmp_path: Path, command: tuple[str, ...], preparation: str, said: str
) -> None:
    # Many short sleeps: a signal that comes just before a long one begins is only seen behind it.
    loading = "open('loading', 'w').close(); [time.sleep(0.01) for _ in range(3000)]"
    (tmp_path / "app.py").write_text(f"import signal, time\n{preparation}\n{loading}\n")
    with subprocess.Popen(
        [sys.executable, "-m", "poorhttp", *command, "app.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for((tmp_path / "loading").exists, "the application to be loaded")
            os.killpg(process.pid, signal.SIGINT)
            out, told = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert (out, told) == ("", f"error: app.py:3: {said}\n")


def test_the_error_is_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def application(environ, start_response):\n    return 5\n")
    code, _, told = poorhttp(tmp_path, "check", "app.py", "--port=0")
    assert code == 3
    assert told.endswith("error: app.py:1: GET / fails: TypeError: 'int' object is not iterable\n")
    assert "Exception ignored" not in told


def test_the_place_of_a_class(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("\nclass application:\n    def __init__(self, *args): pass\n")
    code, _, told = poorhttp(tmp_path, "check", "app.py", "--port=0")
    assert code == 3
    assert "error: app.py:2: GET / fails: TypeError: 'application' object is not iterable" in told


def test_a_fault_while_it_is_loaded_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("user = 1\n\nprint(usre)\n")
    code, _, told = poorhttp(tmp_path, "check", "app.py", "--port=0")
    assert code == 3
    assert "\nerror: app.py:3: NameError: name 'usre' is not defined" in told
    assert "Did you mean: 'user'?" in told or "\nhint: did you mean user?" in told


def test_a_stream_without_an_end_is_read_for_a_while(tmp_path: Path) -> None:
    body = OK + "    while True:\n        yield b'x' * 600000\n"
    assert check(tmp_path, body) == (0, "GET / is answered 200 OK, in 1200000 bytes")


def test_a_file_may_be_longer_than_its_content_length(tmp_path: Path) -> None:
    """It is sent as far as that reaches."""
    body = OK.replace(")])", "), ('Content-Length', '3')])") + (
        "    import io\n    return environ['wsgi.file_wrapper'](io.BytesIO(b'abcdef'))\n"
    )
    assert check(tmp_path, body) == (0, "GET / is answered 200 OK, in 6 bytes")


@pytest.mark.parametrize("empty", ["''", "b''", "bytearray()"])
def test_an_empty_body_needs_no_list(tmp_path: Path, empty: str) -> None:
    """It is served like an empty list; a text that is not empty is not."""
    assert check(tmp_path, OK + f"    return {empty}\n") == (0, "GET / is answered 200 OK, in 0 bytes")
    code, told = check(tmp_path, OK + "    return b'page'\n")
    assert code == 3 and "You should not return a string as your application iterator" in told


def test_headers_that_are_the_servers_are_noted(tmp_path: Path) -> None:
    names = "Connection", "Transfer-Encoding", "Trailer"
    fields = ", ".join(f"({name!r}, 'x')" for name in names)
    code, told = check(tmp_path, OK.replace(")])", f"), {fields}])") + "    return [b'a']\n")
    noted = "note: hop-by-hop headers are the server's business; left out: Connection, Transfer-Encoding, Trailer"
    assert (code, told.splitlines()) == (0, [noted, "GET / is answered 200 OK, in 1 bytes"])


def test_the_application_finds_what_it_finds_when_served(tmp_path: Path) -> None:
    (tmp_path / "poorhttp.ini").write_text("[http]\n[application]\ncolour = red\n[environ]\nSIZE = 7\n")
    body = (
        "    import os\n"
        "    assert environ['poorhttp.options'] == {'colour': 'red'}\n"
        "    assert environ['SIZE'] == os.environ['SIZE'] == '7'\n"
    )
    code, told = check(tmp_path, body + OK + "    return [b'']\n", "-c", "poorhttp.ini")
    assert (code, told) == (0, "GET / is answered 200 OK, in 0 bytes")


def test_it_finds_the_application_as_dev_does(tmp_path: Path) -> None:
    (tmp_path / "wsgi.py").write_text(f"def application(environ, start_response):\n{OK}    return [b'']\n")
    code, told, _ = poorhttp(tmp_path, "check", "--port=0")
    assert (code, told) == (0, "ok\n")


def test_where_nothing_is_found_it_says_what_is_looked_for_as_dev_does(tmp_path: Path) -> None:
    looked_for = "dispatch_table.py, app.py, application.py, wsgi.py, main.py, simple.py"
    told = f"error: nothing to serve in this directory: none of {looked_for}\nhint: "
    assert poorhttp(tmp_path, "check", "--port=0") == (3, "", f"{told}poorhttp init writes one\n")
    (tmp_path / "app2.py").touch()
    hint = "there are: app2.py; name one, as in poorhttp check app2.py; or poorhttp init writes one\n"
    assert poorhttp(tmp_path, "check", "--port=0") == (3, "", told + hint)
    (tmp_path / "poorhttp.ini").write_text("[http]\n")
    code, _, said = poorhttp(tmp_path, "check", "--port=0")
    assert code == 3
    remedy = "poorhttp check -c poorhttp.ini reads the ini file of this directory"
    assert said.endswith(f"hint: there are: app2.py; name one, as in poorhttp check app2.py; or {remedy}\n")
    assert remedy not in poorhttp(tmp_path, "check", "-c", "poorhttp.ini", "--port=0")[2]


def test_an_address_that_others_hold_is_found(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        (tmp_path / "app.py").write_text(f"def application(environ, start_response):\n{OK}    return []\n")
        code, _, told = poorhttp(tmp_path, "check", "app.py", "--bind", address)
    assert code == 4
    assert address in told


def test_beside_its_own_server_nothing_is_touched(start: Start, tmp_path: Path) -> None:
    source = f"def application(environ, start_response):\n{OK}    return [b'a']\n"
    server = start("1x1", "--pidfile=pid", "--errorlog=error.log", source=source)
    address = f"127.0.0.1:{server.port}"
    before = sorted(each.name for each in tmp_path.iterdir() if each.name != "__pycache__")
    code, told, _ = poorhttp(tmp_path, "check", "app.py", "--pidfile=pid", "--errorlog=error.log", "--bind", address)
    assert (code, told) == (0, "ok\n")
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "__pycache__") == before
    assert server.get("/")[0] == 200


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", [("check", "--port=0"), ("--check-config",)])
def test_a_command_that_is_ended_leaves_no_process(tmp_path: Path, command: tuple[str, ...], signum: int) -> None:
    """Nor what loads the application, which may go on for ever."""
    (tmp_path / "app.py").write_text(
        "import os, time\nopen('loading', 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-m", "poorhttp", *command, "app.py"], cwd=tmp_path) as process:
        wait_for(lambda: (tmp_path / "loading").exists() and (tmp_path / "loading").read_text(), "the application")
        process.send_signal(signum)
        try:
            process.wait(15)
        finally:
            process.kill()
    number = int((tmp_path / "loading").read_text())
    assert number != process.pid
    with contextlib.suppress(psutil.NoSuchProcess):
        loading = psutil.Process(number)
        wait_for(lambda: not lives(loading), "its end")
