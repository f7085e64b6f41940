"""The order of a start, what is told, exit codes, and the pidfile. The serving functions are stand-ins."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

import poorhttp
from poorhttp import cli, stdlib
from poorhttp.config.commands import ACTIONS
from poorhttp.errors import ConfigError, LoadError, PoorhttpError
from poorhttp.process import server
from poorhttp.status import pidfile

APP = "def application(environ, start_response):\n    return [b'ok']\n"
ROOT = Path(__file__).resolve().parents[2]
VERSION = f"poorhttp 2.0.0a1, Python {sys.version.split()[0]}"


class World:
    """Stand-ins for log, worker and supervisor, and what they were given."""

    def __init__(self):
        self.calls = []
        self.serving = lambda *args: None
        self.asked = False

    def serve(
        self, app, listeners, config, error_log, access_log, ready, clean_up, make_reload, manager, connections, row
    ):
        self.calls.append(("serve", app, [each.getsockname() for each in listeners], config, error_log, access_log))
        self.clean_up = clean_up
        self.serving()
        return 143 if config.backlog == 1 else 0

    def supervise(
        self,
        load,
        listeners,
        config,
        error_log,
        access_log,
        make_reload,
        handover,
        manager,
        scoreboard,
        connections,
        ready,
    ):
        self.calls.append(
            ("supervise", load(), [each.getsockname() for each in listeners], config, error_log, access_log)
        )
        self.serving()
        return 1 if config.backlog == 1 else 0


@pytest.fixture(autouse=True)
def world(monkeypatch, tmp_path):
    world = World()

    class ErrorLog:
        def __init__(self, path, level, debug, webmaster, may_be_unread=False):
            self.given = (path, level, debug, webmaster)
            if "/no/" in path:
                raise FileNotFoundError(2, "No such file or directory", path)

        def fileno(self):
            return 2

        def streams(self):
            return []

        def write(self, level, text):
            """Threads that pytest has are told, which workers would lack."""

    class Boot:
        def __init__(self, is_reload):
            assert not is_reload

        def answer_first(self, are_waiting):
            pass

        def check(self):
            if world.asked:
                raise SystemExit(0)

        def restore(self):
            world.calls.append(("restore",))

        def silence(self):
            world.calls.append(("silence",))

    def module(name, **names):
        fake = types.ModuleType(name)
        vars(fake).update(names)
        monkeypatch.setitem(sys.modules, name, fake)

    def check(path):
        ErrorLog(path, "", False, "")

    def open_access_log(path, report, may_be_unread):
        return {"": -1, "-": 1}.get(path, 9)

    module("poorhttp.logs.log", ErrorLog=ErrorLog, check=check, open_access_log=open_access_log)
    module("poorhttp.process.worker", serve=world.serve, check_storage=lambda: None)
    monkeypatch.setattr("poorhttp.process.server.Boot", Boot)
    monkeypatch.setattr("poorhttp.process.server.expect_end", lambda seconds, error_log: None)
    module("poorhttp.process.supervisor", supervise=world.supervise)
    (tmp_path / "one.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in [name for name in os.environ if name.startswith("POORHTTP_")]:
        monkeypatch.delenv(name)
    before = set(sys.modules)
    yield world
    for name in set(sys.modules) - before:
        if not name.startswith("poorhttp"):
            del sys.modules[name]


def test_start(world, capsys):
    assert cli.main(["one.py", "--port=0"]) == 0
    (kind, app, addresses, config, log, access_log), last = world.calls
    assert (kind, app({}, None), access_log, last) == ("serve", [b"ok"], -1, ("silence",))
    assert log.given == ("-", "info", False, "root@localhost")
    assert config.type == "single"
    said = capsys.readouterr()
    url = f"http://127.0.0.1:{addresses[0][1]}/"
    assert said.err.splitlines() == [VERSION, "one.py", url, "single, 1 process x 1 thread"]
    assert said.out == ""


@pytest.mark.parametrize(
    ("argv", "kind", "line"),
    [
        (["--type=forking"], "supervise", "forking, 4 processes x 1 thread"),
        (["--type=forking", "--processes=1"], "supervise", "forking, 1 process x 1 thread"),
        (["--type=threading"], "serve", "threading, 1 process x 16 threads"),
        (["--processes=2", "--threads=4"], "supervise", "forking, 2 processes x 4 threads"),
        (["--type=threading", "--processes=2"], "supervise", "forking, 2 processes x 16 threads"),
        (["--threads=4"], "serve", "threading, 1 process x 4 threads"),
        (["--type=threading", "--threads=1"], "serve", "single, 1 process x 1 thread"),
    ],
)
def test_the_settings_decide_which_processes_serve(world, capsys, argv, kind, line):
    assert cli.main(["one", "--port=0", *argv]) == 0
    assert world.calls[0][0] == kind
    assert capsys.readouterr().err.splitlines()[-1] == line


def test_several_addresses_in_one_line(world, capsys, tmp_path):
    assert cli.main(["one", "-b", ":0", "-b", "127.0.0.1:0", "-b", "unix:x.sock"]) == 0
    (_, every), (_, one), path = world.calls[0][2]
    line = capsys.readouterr().err.splitlines()[2]
    assert line == f"http://127.0.0.1:{every}/ and every IPv4 address, http://127.0.0.1:{one}/, unix:{path}"
    assert path == f"{tmp_path}/x.sock"
    assert not os.path.exists(path)


def test_clients_queue_while_the_application_is_loaded(world, tmp_path):
    (tmp_path / "slow.py").write_text(
        f"import socket\nwith socket.socket(socket.AF_UNIX) as s:\n    s.connect({str(tmp_path / 'x.sock')!r})\n{APP}"
    )
    assert cli.main(["slow", "-b", "unix:x.sock"]) == 0
    assert world.calls[0][0] == "serve"


def test_environ_section_is_there_when_the_application_is_loaded(world, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(stdlib.os, "environ", os.environ)
    (tmp_path / "my.ini").write_text("[http]\nport = 0\napplication = env.py\n[environ]\nMy_Name = x\n")
    (tmp_path / "env.py").write_text(f"import os\nassert os.environ['My_Name'] == 'x'\n{APP}")
    assert cli.main(["-c", "my.ini"]) == 0


def test_notes_come_before_the_start(capsys, tmp_path):
    (tmp_path / "my.ini").write_text("[http]\nport = 0\nsecret = x\nmemcache = y\n")
    assert cli.main(["-c", "my.ini", "one"]) == 0
    notes = capsys.readouterr().err.splitlines()[:2]
    assert notes == [
        "note: my.ini:3: secret is not used",
        "note: my.ini:4: memcache is not used",
    ]


def test_exit_code_of_who_serves(world):
    assert cli.main(["one", "--port=0", "--type=forking", "--backlog=1"]) == 1
    assert cli.main(["one", "--port=0", "--backlog=1"]) == 143


def test_a_worker_that_leaves_without_returning_can_clean_up(world, tmp_path):
    def leave():
        world.clean_up()
        assert not (tmp_path / "pid").exists()
        assert not (tmp_path / "x.sock").exists()

    world.serving = leave
    assert cli.main(["one", "-b", "unix:x.sock", "--pidfile=pid"]) == 0


# Commands that only print


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{VERSION}\n"


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_for_one_command(capsys, tmp_path, action, flag):
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert cli.main([action, "-p", str(tmp_path / "pid"), flag]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: poorhttp {action} ") and ACTIONS[action] in told
    assert ("--json" in told) == ("--watch" in told) == (action == "status")
    assert ("--wait" in told) == (action in ("start", "restart", "reload"))


def test_help(capsys, monkeypatch):
    monkeypatch.setenv("POORHTTP_PORT", "bad")
    assert cli.main(["-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: poorhttp [-c FILE] [APP] [options]\n")


def test_check_config(capfd, tmp_path, world):
    (tmp_path / "my.ini").write_text("[http]\nsecret = x\n")
    assert cli.main(["-c", "my.ini", "one", "--check-config", "--port=1", "-p", "pid", "--errorlog=e"]) == 0
    said = capfd.readouterr()
    assert (said.out, said.err) == ("ok\n", "note: my.ini:2: secret is not used\n")
    assert cli.main(["--check-config", "--port=x"]) == 2
    assert capfd.readouterr().err.startswith("error: flag --port: port must be")
    assert cli.main(["one", "--check-config", "--errorlog=/no/e"]) == 2
    assert capfd.readouterr().err.startswith("error: cannot open the log /no/e")
    assert world.calls == []
    assert not (tmp_path / "pid").exists()


def test_check_config_loads_the_application(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(stdlib.os, "environ", os.environ)
    (tmp_path / "my.ini").write_text("[http]\napplication = env.py\n[environ]\nMy_Name = x\n")
    (tmp_path / "env.py").write_text(f"import os\nassert os.environ['My_Name'] == 'x'\n{APP}")
    assert cli.main(["-c", "my.ini", "--check-config"]) == 0
    assert cli.main(["no_such_module", "--check-config"]) == 3
    said = capfd.readouterr()
    assert said.out == "ok\n"
    assert said.err.startswith("error: no module 'no_such_module'")


@pytest.mark.parametrize("argv", [["my.ini"], ["stop", "my.ini"]])
def test_an_ini_file_without_its_flag_is_told(capfd, tmp_path, monkeypatch, argv):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.ini").write_text("[http]\n")
    assert cli.main(argv) == 2
    assert capfd.readouterr().err == "error: 'my.ini' is an ini file, not an application\nhint: write -c my.ini\n"


def test_a_mistyped_command_is_told_also_where_the_server_has_the_address(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as running:
        assert cli.main(["relaod", f"--bind=127.0.0.1:{running.getsockname()[1]}"]) == 4
    assert "hint: did you mean reload? Or choose another port" in capfd.readouterr().err


@pytest.mark.parametrize(("word", "meant"), [("relaod", "reload"), ("chek", "check")])
def test_a_mistyped_command_is_told(capfd, tmp_path, monkeypatch, word, meant):
    monkeypatch.chdir(tmp_path)
    assert cli.main([word, "--check-config"]) == 3
    assert f"hint: did you mean {meant}?" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["dev", "devx", "--check-config"], "set chdir to its directory"),
        (["check", "statsu", "--port=0"], "set chdir to its directory"),
        (["check", "modul", "--port=0"], "did you mean module?"),
        (["check", "status", "--port=0"], "a command goes before everything else: poorhttp status"),
    ],
)
def test_behind_a_command_no_other_one_is_meant(capfd, tmp_path, monkeypatch, argv, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module.py").touch()
    assert cli.main(argv) == 3
    assert f"hint: {hint}" in capfd.readouterr().err


def test_print_config(capsys):
    assert cli.main(["--print-config", "--port=5"]) == 0
    assert "port = 5                                  # flag --port\n" in capsys.readouterr().out


def test_dump_config_is_the_committed_ini(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert cli.main(["examples/tour", "--dump-config"]) == 0
    assert capsys.readouterr().out == (ROOT / "poorhttp.ini").read_text()


def test_dump_config_loads_nothing(capsys, world):
    assert cli.main(["no_such_module", "--dump-config"]) == 0
    assert "\napplication = no_such_module\n" in capsys.readouterr().out
    assert cli.main(["--dump-config", "--port=x"]) == 2
    assert world.calls == []


# Exit codes


@pytest.mark.parametrize(
    ("argv", "code", "lines"),
    [
        (["--prot=1"], 2, ["error: unknown flag: '--prot'", "hint: did you mean --port?"]),
        (["-c", "no\nfile.ini"], 2, None),
        (["on", "--port=0"], 3, None),
        (["one:app1", "--port=0"], 3, ["error: one has no attribute 'app1'", "hint: callables in it: one:application"]),
        (["one", "-b", "192.0.2.1:80"], 4, None),
        (["one", "--errorlog=/no/e.log"], 2, None),
    ],
)
def test_faults(capsys, world, argv, code, lines):
    assert cli.main(argv) == code
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith("error: ")
    assert said[1].startswith("hint: ")
    assert lines is None or said == lines
    assert not [call for call in world.calls if call[0] in ("serve", "supervise")]


def test_port_in_use(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["one", f"--port={port}"]) == 4
    assert f"by pid {os.getpid()} (" in capsys.readouterr().err


def test_failing_application_shows_its_traceback(capsys, tmp_path):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert cli.main(["bad", "--port=0"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "Traceback (most recent call last):"
    assert said[1].endswith('bad.py", line 1, in <module>')
    assert said[-2] == "error: bad.py:1: ZeroDivisionError: division by zero"
    assert said[-1].startswith("hint: ")


def test_unexpected(capsys, world):
    def fail():
        raise RuntimeError("a\nb")

    world.serving = fail
    assert cli.main(["one", "--port=0"]) == 1
    said = capsys.readouterr().err
    assert "in fail\n" in said
    assert said.endswith(
        "error: unexpected RuntimeError: a\\nb\nhint: this is a fault of poorhttp: please report it with the traceback above\n"
    )


@pytest.mark.parametrize(
    ("number", "limit", "remedy"),
    [
        (errno.EMFILE, "this process may have {} descriptors (RLIMIT_NOFILE)", "ulimit -n"),
        (errno.ENFILE, "the machine has no more (fs.file-max)", "sysctl fs.file-max"),
    ],
)
def test_without_a_descriptor(capsys, world, number, limit, remedy):
    def fail():
        raise OSError(number, os.strerror(number))

    world.serving = fail
    assert cli.main(["one", "--port=0"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-2].startswith(f"error: too many open files: {limit.format(os.sysconf('SC_OPEN_MAX'))}")
    assert said[-1].startswith("hint: ") and remedy in said[-1]
    assert not [line for line in said if "Traceback" in line]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BlockingIOError(errno.EAGAIN, "busy"), "the system allows no further process or has no memory: busy"),
        (OSError(errno.ENOMEM, "none"), "the system allows no further process or has no memory: none"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/dev/null"), "cannot open /dev/null: No such file"),
        (PermissionError(errno.EACCES, "Denied", "/proc/self/maps"), "cannot open /proc/self/maps: Denied"),
    ],
)
def test_what_the_system_lacks_is_no_fault_of_ours(capsys, world, error, told):
    def fail():
        raise error

    world.serving = fail
    assert cli.main(["one", "--port=0"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == f"error: {told}"
    assert said[-1].startswith("hint: ")
    assert not [line for line in said if "Traceback" in line]


def test_missing_engine(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "poorhttp.process.worker", None)
    assert cli.main(["one", "--port=0"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: the compiled engine is not there: ")
    assert (
        said[1]
        == f"hint: {ROOT} holds the sources: run the installed poorhttp elsewhere, or here after: pip install -e ."
    )


def test_missing_engine_of_an_installed_package(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "poorhttp.process.worker", None)
    monkeypatch.setattr(server, "__file__", str(tmp_path / "poorhttp" / "server.py"))
    assert cli.main(["one", "--port=0"]) == 1
    assert capsys.readouterr().err.splitlines()[1] == "hint: build and install it with: pip install ."


def test_stopped_before_it_served(world, tmp_path):
    (tmp_path / "interrupt.py").write_text("raise KeyboardInterrupt\n")
    assert cli.main(["interrupt", "-b", "unix:x.sock", "--pidfile=pid"]) == 0
    assert {each.name for each in tmp_path.iterdir()} <= {"one.py", "interrupt.py", "__pycache__"}


def test_a_stop_that_the_application_swallows(world, tmp_path):
    world.asked = True
    (tmp_path / "swallow.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(SystemExit) as caught:
        cli.main(["swallow", "--port=0", "--pidfile=pid"])
    assert caught.value.code == 0
    assert not (tmp_path / "pid").exists()


# Pidfile


def test_pidfile_lives_as_long_as_the_server(world, tmp_path):
    seen = []
    world.serving = lambda: seen.append((tmp_path / "pid").read_text())
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 0
    assert seen == [f"{os.getpid()}\n"]
    assert not (tmp_path / "pid").exists()
    assert [each for each in tmp_path.iterdir() if each.name.startswith("pid")] == []


@pytest.mark.parametrize("is_server", [True, False])
def test_pidfile_of_a_living_process(world, tmp_path, capsys, monkeypatch, is_server):
    """Nobody is told to kill what is no server."""
    monkeypatch.setattr(pidfile, "is_server", lambda _: is_server)
    monkeypatch.setattr(pidfile, "_holders", lambda *_: {os.getppid()})
    (tmp_path / "pid").write_text(f"{os.getppid()}\n")
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: the pidfile {tmp_path}/pid names process {os.getppid()}, which is alive"
    no_server = "hint: that is no poorhttp; choose another pidfile, or remove it"
    assert said[1] == (f"hint: stop it first: kill {os.getppid()}" if is_server else no_server)
    assert (tmp_path / "pid").read_text() == f"{os.getppid()}\n"


@pytest.mark.parametrize("text", ["{dead}\n", ""])
def test_stale_pidfile_is_replaced(world, tmp_path, capsys, text):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    (tmp_path / "pid").write_text(text.format(dead=gone.pid))
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"note: replaced the stale pidfile {tmp_path}/pid"


def test_a_pidfile_of_this_very_process_is_no_news(world, tmp_path, capsys):
    """The image before this one wrote it, as a rule."""
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 0
    assert "note" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["root:x:0:0", "0", "-1", "99999999", "9" * 60, "1 2", "²"])
def test_what_is_no_pidfile_is_left_alone(tmp_path, capsys, text):
    (tmp_path / "pid").write_text(text)
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 2
    assert "is there and is no pidfile" in capsys.readouterr().err
    assert (tmp_path / "pid").read_text() == text


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("elsewhere"), os.mkfifo])
def test_what_is_no_file_is_left_alone(tmp_path, capsys, make):
    make(tmp_path / "pid")
    before = os.lstat(tmp_path / "pid").st_mode
    code = cli.main(["one", "--port=0", "-p", "pid"])
    assert code == 2
    assert "choose another pidfile, or remove it" in capsys.readouterr().err
    assert os.lstat(tmp_path / "pid").st_mode == before
    assert cli.main(["stop", "-p", "pid"]) == 2
    assert "remove it" in capsys.readouterr().err


def test_pidfile_in_no_directory(capsys):
    assert cli.main(["one", "--port=0", "-p", "no/pid"]) == 2
    assert "cannot write the pidfile" in capsys.readouterr().err


def test_pidfile_of_a_successor_is_left_alone(world, tmp_path):
    world.serving = lambda: (tmp_path / "pid").write_text("1\n")
    assert cli.main(["one", "--port=0", "-p", "pid"]) == 0
    assert (tmp_path / "pid").read_text() == "1\n"


# From code


def test_run_a_callable(world, capsys):
    def hello(environ, start_response):
        return [b"hello"]

    poorhttp.run(hello, type="threading", address="127.0.0.1:0", threads=2)
    _, app, addresses, config, _, _ = world.calls[0]
    assert (app, config.threads, addresses[0][0]) == (hello, 2, "127.0.0.1")
    assert capsys.readouterr().err.splitlines()[1] == "test_cli:test_run_a_callable.<locals>.hello"


def test_run_by_name(world):
    poorhttp.run("one.py", port=0)
    assert world.calls[0][1]({}, None) == [b"ok"]


def test_run_says_that_it_asks_nothing(world, capsys):
    poorhttp.run("one.py", port=0, check_path="/")
    assert capsys.readouterr().err.startswith(
        "note: check_path is used by the command line only; serving without this check\n"
    )


def test_run_raises():
    with pytest.raises(ConfigError, match=r"unknown keyword: 'prot'\nhint: did you mean port\?"):
        poorhttp.run("one.py", prot=0)
    with pytest.raises(LoadError, match="is an ASGI application"):
        poorhttp.run(asgi, port=0)
    with pytest.raises(SystemExit):
        poorhttp.run("one.py", port=0, type="forking", backlog=1)


@pytest.mark.parametrize("app", [5, None])
def test_run_what_is_no_application(app):
    with pytest.raises(
        LoadError, match=r"^app is not callable: it is of type \w+\nhint: a WSGI application is a function of"
    ):
        poorhttp.run(app, port=0)


@pytest.mark.parametrize("argv", [["--port=0"], ["--check-config"]])
def test_run_by_an_application_that_is_being_loaded(world, capfd, tmp_path, argv):
    (tmp_path / "eager.py").write_text(f"import poorhttp\n{APP}poorhttp.run(application, port=0)\n")
    for _ in range(2):
        assert cli.main(["eager.py", *argv]) == 3
        assert capfd.readouterr().err.splitlines() == [
            f"error: poorhttp.run was called ({tmp_path}/eager.py, line 4) while poorhttp loads eager.py",
            'hint: put the call under: if __name__ == "__main__":',
        ]
    assert [call for call in world.calls if call[0] != "silence"] == []
    assert cli.main(["one.py", "--port=0"]) == 0


async def asgi(scope, receive, send):
    pass


def test_run_in_another_thread():
    caught = []

    def run():
        try:
            poorhttp.run("one.py", port=0)
        except PoorhttpError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert caught[0].startswith("poorhttp.run works in the main thread only")


def test_unknown_public_name():
    with pytest.raises(AttributeError, match="module 'poorhttp' has no attribute 'Server'"):
        poorhttp.Server  # noqa: B018


# As a command


def command(*argv, **kwargs):
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", "poorhttp", *argv], env=environ, timeout=30, check=False, **kwargs)


def test_command_and_its_exit_code():
    done = command("--port=x", capture_output=True, text=True)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 2)


def test_a_reader_that_has_seen_enough():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = command("--dump-config", stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_closed_standard_streams():
    close = "import os, sys; os.closerange(0, 3); os.execv(sys.executable, sys.argv[1:])"
    argv = [sys.executable, "-c", close, sys.executable, "-m", "poorhttp", "--port=x"]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=30, check=False)
    assert done.returncode == 2


def test_signals_are_untouched_by_commands_that_print():
    before = signal.getsignal(signal.SIGTERM)
    cli.main(["--version"])
    assert signal.getsignal(signal.SIGTERM) is before
