"""Autoreload: whatever the application does instead of being loaded, a page says so at once, and the next save mends it."""

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from starter import SHAPES, Server, Start, by_rename, wait_for

GOOD = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'good']\n"

MISTAKES = {
    "syntax": ("def application(:\n", "SyntaxError: invalid syntax"),
    "indentation": ("if True:\npass\n", "IndentationError: expected an indented block"),
    "encoding": ("x = '\udcff'\n", "SyntaxError: (unicode error)"),
    "name": ("applicatoin\n", "NameError: name 'applicatoin' is not defined"),
    "import": ("import no_such_module_anywhere\n", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
    "nothing": ("", "has neither application nor app"),
    "not callable": ("application = 1\n", "is not callable: it is of type int"),
    "exit": ("import sys\nsys.exit('enough')\n", "SystemExit: enough"),
    "interrupt": ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    "generator": ("raise GeneratorExit\n", "GeneratorExit"),
    "group": ("raise ExceptionGroup('many', [ValueError('one'), TypeError('two')])\n", "many (2 sub-exceptions)"),
    "liar": (
        "class Liar(Exception):\n    def __str__(self):\n        raise ValueError('no')\nraise Liar\n",
        "Liar",
    ),
    "os exit": ("import os\nos._exit(7)\n", "the process died while it loaded the application: exit code 7"),
    "segfault": ("import ctypes\nctypes.string_at(0)\n", "killed by SIGSEGV"),
    "kill": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "killed by SIGKILL"),
}

if sys.version_info < (3, 11):
    del MISTAKES["group"]


def start(launch: Start, tmp_path: Path, source: str, *arguments: str) -> Server:
    (tmp_path / "app.py").write_bytes(source.encode("utf-8", "surrogateescape"))
    server = launch("dev", "app.py", "--port=0", *arguments)
    server.await_address()
    return server


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_shown_and_mended(launch: Start, tmp_path: Path, name: str) -> None:
    """At the very first start, and after a good one."""
    source, says = MISTAKES[name]
    server = start(launch, tmp_path, source)
    for _ in range(2):
        status, body = server.get()
        assert status == 500
        assert says in body
        assert "loader.py" not in body
        by_rename(tmp_path / "app.py", GOOD.encode())
        assert server.get() == (200, "good")
        by_rename(tmp_path / "app.py", source.encode("utf-8", "surrogateescape"))
    assert server.get()[0] == 500
    wait_for(lambda: server.said.count("waiting for a save") == 3, "three mistakes to be told")
    assert "Traceback" not in server.said
    assert server.stop(signal.SIGINT) == 0


def test_every_shape_survives_a_mistake(launch: Start, tmp_path: Path, shape: str) -> None:
    server = start(launch, tmp_path, "application\n", *SHAPES[shape])
    assert server.get()[0] == 500
    (tmp_path / "app.py").write_text(GOOD)
    assert server.get() == (200, "good")


def test_a_mistake_elsewhere_names_its_place(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "views.py").write_text("\n\nusr = 1\nuser = usre\n")
    server = start(launch, tmp_path, "from views import user\n" + GOOD)
    _, body = server.get()
    assert "\nviews.py:4\n" in body
    assert body.startswith("Traceback (most recent call last):\n")
    server.await_text("[E] views.py:4: NameError: name 'usre' is not defined")
    (tmp_path / "views.py").write_text("user = 1\n")
    assert server.get() == (200, "good")


def test_what_is_missing_may_come(launch: Start, tmp_path: Path) -> None:
    """A module, a package, a file that the application wanted to read."""
    source = "import helper\nimport package.part\nopen('words.txt')\n"
    server = start(launch, tmp_path, source + GOOD)
    assert "No module named 'helper'" in server.get()[1]
    (tmp_path / "helper.py").write_text("")
    assert "No module named 'package'" in server.get()[1]
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text("")
    wait_for(lambda: "words.txt" in server.get()[1], "the package to be found")
    (tmp_path / "words.txt").write_text("")
    assert server.get() == (200, "good")


def test_the_application_itself_may_come(launch: Start, tmp_path: Path) -> None:
    server = launch("dev", "app.py", "--port=0")
    server.await_address()
    assert "app.py does not exist" in server.get()[1]
    (tmp_path / "app.py").write_text(GOOD)
    assert server.get() == (200, "good")
    (tmp_path / "app.py").unlink()
    assert server.get()[0] == 500


def test_an_endless_import(launch: Start, tmp_path: Path) -> None:
    server = start(launch, tmp_path, "while True:\n    pass\n")
    began = time.monotonic()
    status, body = server.get(is_patient=False)
    assert status == 503 and "still importing" in body
    assert 4 < time.monotonic() - began < 12
    told = "still importing, for more than 5 seconds; the last file it read is app.py\n"
    assert body.startswith(told)
    server.await_text(f"[W] {told}")
    (tmp_path / "app.py").write_text(GOOD)
    assert server.get() == (200, "good")
    (tmp_path / "app.py").write_text("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + GOOD)
    assert server.get(is_patient=False)[0] == 503
    (tmp_path / "go").touch()
    assert server.get() == (200, "good")
    assert server.stop(signal.SIGINT) == 0


def test_a_process_that_dies_while_it_serves(launch: Start, tmp_path: Path) -> None:
    source = "import os\ndef application(environ, start_response):\n    os._exit(9)\n"
    server = start(launch, tmp_path, source)
    server.await_text("loaded in")
    with socket.create_connection(("127.0.0.1", server.port), 15) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(100) == b""
    (tmp_path / "app.py").write_text(GOOD)
    wait_for(lambda: server.get() == (200, "good"), "the mended application")


def test_an_application_that_dies_young_is_loaded_again_when_asked_for(launch: Start, tmp_path: Path) -> None:
    dies = "import os\ndef application(*_):\n    os.path.exists(os.environ['MARKS'] + '/mended') or os._exit(9)\n"
    server = start(launch, tmp_path, f"{dies}    return good(*_)\n{GOOD.replace('application', 'good')}")
    server.await_text("loaded in")
    hint = f"A change, or kill -USR2 {server.process.pid}, loads it again"

    def is_told() -> bool:
        with contextlib.suppress(ConnectionError):  # who is older than a second is loaded again at once
            return hint in server.get()[1]
        return False

    wait_for(is_told, "a page that says what to do")
    (server.marks / "mended").touch()
    server.send(signal.SIGUSR2)
    wait_for(lambda: server.get() == (200, "good"), "the application to be loaded again")


def test_a_file_that_every_load_changes_is_let_be(launch: Start, tmp_path: Path) -> None:
    """By another program, so that nobody tells who writes it."""
    (tmp_path / "stamp.py").write_text("")
    source = (
        "import subprocess, stamp, time\n"
        "subprocess.run(['/bin/sh', '-c', 'echo \"# $(date +%N)\" > stamp.py'])\n"
        "time.sleep(0.3)\n"
    )
    server = start(launch, tmp_path, source + GOOD)
    assert server.get() == (200, "good")
    server.await_text("stamp.py changes whenever the application is loaded; not watched any more")


@pytest.mark.parametrize("text", ["''", "None", "b'{}'"])
def test_a_json_of_the_authors_is_his_alone(launch: Start, tmp_path: Path, text: str) -> None:
    """Whatever it makes of what is to be told, it is told."""
    patch = f"import json\njson.dumps = json.loads = lambda *_, **__: {text}\n"
    server = start(launch, tmp_path, patch + GOOD)
    assert server.get() == (200, "good")
    (tmp_path / "app.py").write_text(patch + "1 / 0\n")
    status, body = server.get()
    assert status == 500
    assert "ZeroDivisionError" in body
    (tmp_path / "app.py").write_text(patch + GOOD)
    assert server.get() == (200, "good")
    assert server.stop(signal.SIGINT) == 0


def test_a_port_in_use_is_told_at_once(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as owner:
        server = launch("dev", "app.py", f"--port={owner.getsockname()[1]}")
        assert server.end() == 4
    assert str(os.getpid()) in server.said


def test_a_public_address_needs_a_word(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(GOOD)
    for address in "0.0.0.0", "::", "192.0.2.1":
        server = launch("dev", "app.py", "--port=0", f"--address={address}")
        assert server.end() == 2
        assert "can be reached from other machines" in server.said
        for words in (
            ("--reload", "--debug", "app.py"),
            ("dev", "app.py", "--no-reload"),
            ("dev", "app.py", "--check-config"),
            ("check", "app.py", "--reload", "--debug"),
        ):
            server = launch(*words, "--port=0", f"--address={address}")
            assert server.end() == 2
            assert "can be reached from other machines" in server.said
    for words in ("dev", "--public"), ("--reload", "--debug", "--public"), ("--reload",):
        server = launch(*words, "app.py", "--port=0", "--address=0.0.0.0")
        server.await_address()
        assert server.get() == (200, "good")


@pytest.mark.parametrize("words", [("dev", "app.py"), ("dev", "app.py", "--no-reload"), ("--reload", "-d", "app.py")])
def test_a_public_socket_that_is_passed_needs_it_too(launch: Start, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(GOOD)
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(tmp_path / "passed.sock"))
        unix.listen()
        public = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        both = stack.enter_context(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True))
        for refused in public, both:
            for bind in (), ("--bind=fd:3,fd:5",):
                server = launch(*words, *bind, passed=[own, unix, refused])
                assert server.end() == 2
                assert f":{refused.getsockname()[1]} can be reached from other machines" in server.said
                assert "--public" in server.said
        for allowed, more in ((own, unix), ()), ((own, unix, public, both), ("--public",)):
            server = launch(*words, *more, passed=allowed)
            server.await_address()
            assert server.get() == (200, "good")
            assert server.stop(signal.SIGINT) == 0


def test_what_a_program_forks_at_its_import_does_not_keep_the_port(launch: Start, tmp_path: Path, shape: str) -> None:
    """Such a process may outlive the server; it gets none of the sockets. What is forked elsewhere serves as ever."""
    forks = (
        "import os, time\nif os.fork() == 0:\n    os.close(2)\n    os.setsid()\n"
        "    with open(os.environ['MARKS'] + '/new', 'w') as file:\n        file.write(str(os.getpid()))\n"
        "    os.rename(os.environ['MARKS'] + '/new', os.environ['MARKS'] + '/forked')\n"
        "    time.sleep(120)\n    os._exit(0)\n"
    )
    server = start(launch, tmp_path, forks + GOOD, *SHAPES[shape])
    assert server.get() == (200, "good")
    server.await_mark("forked")
    left = int((server.marks / "forked").read_text())
    try:
        assert server.stop(signal.SIGINT) == 0
        os.kill(left, 0)
        assert server.refuses()
        with socket.create_server(("127.0.0.1", server.port)):
            pass
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_configuration_that_breaks(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(GOOD)
    good = "[http]\napplication = app.py\nport = 0\nautoreload = yes\ndebug = yes\n"
    (tmp_path / "my.ini").write_text(good)
    server = launch("-c", "my.ini")
    server.await_address()
    assert server.get() == (200, "good")
    (tmp_path / "my.ini").write_text(good.replace("port", "prot"))
    assert "unknown key in [http]: 'prot'" in server.get()[1]
    (tmp_path / "my.ini").write_text(good)
    assert server.get() == (200, "good")


def test_what_fails_to_load_says_when_to_try_again(launch: Start, tmp_path: Path) -> None:
    """In each format: a save may come at any time."""
    server = start(launch, tmp_path, "application\n")

    def answers(status: int) -> None:
        for accept in "text/html", "application/json", "*/*":
            with contextlib.closing(server.connection()) as connection:
                connection.request("GET", "/", headers={"Accept": accept})
                answer = connection.getresponse()
                answer.read()
                assert (answer.status, answer.headers.get_all("Retry-After")) == (status, ["1"])

    answers(500)
    (tmp_path / "app.py").write_text("import time\ntime.sleep(60)\n")
    server.await_text("still importing")
    answers(503)


def test_where_nothing_is_found_it_says_what_is_looked_for(launch: Start, tmp_path: Path) -> None:
    """And serves it when it is there."""
    looked_for = "dispatch_table.py, app.py, application.py, wsgi.py, main.py, simple.py"
    server = launch("dev", "--port=0")
    server.await_address()
    status, body = server.get()
    assert status == 500
    assert body.startswith(f"nothing to serve in this directory: none of {looked_for}\n")
    assert body.endswith("\nhint: poorhttp init writes one\n")
    (tmp_path / "app.py").write_text(GOOD)
    assert server.get() == (200, "good")
    (tmp_path / "app.py").rename(tmp_path / "app2.py")
    status, body = server.get()
    assert status == 500 and looked_for in body
    assert "hint: there are: app2.py; name one, as in poorhttp dev app2.py; or poorhttp init writes one\n" in body
    server.await_text(f"none of {looked_for}; there are: app2.py; name one")
    assert server.stop(signal.SIGINT) == 0


def test_where_nothing_is_found_the_ini_file_beside_is_named(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "poorhttp.ini").write_text("[http]\napplication = site\n")
    server = launch("dev", "--port=0")
    server.await_address()
    status, body = server.get()
    assert status == 500
    assert body.endswith("\nhint: poorhttp dev -c poorhttp.ini reads the ini file of this directory\n")
    assert server.stop(signal.SIGINT) == 0


def test_a_directory_gets_its_dispatch_table(launch: Start, tmp_path: Path) -> None:
    """Its name could be that of a module, so it is looked for as one."""
    (tmp_path / "place").mkdir()
    server = launch("dev", "place", "--port=0")
    server.await_address()
    server.await_text("place: no dispatch_table.py in this directory")
    assert server.get()[0] == 500
    for text in "one", "two":
        table = f"from poorhttp import http\ndef page(req):\n    req.write('{text}')\n    return http.DONE\n"
        (tmp_path / "place" / "dispatch_table.py").write_text(table + "handlers = {'/': (http.METHOD_GET, page)}\n")
        assert server.get() == (200, text)
