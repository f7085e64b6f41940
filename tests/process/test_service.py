"""The units in examples/ do what they say: the service is started, reloaded and stopped as systemd would do it, by the
commands of the file itself, with its paths in a directory of the test.
"""

import contextlib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from starter import PATIENCE, ROOT, wait_for

PLACES = "/opt/", "/etc/", "/run/", "/var/log/"
"""Where the paths of the examples begin."""

PROGRAM = """
import os
import installed

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{text} {{installed.NAME}} {{os.getcwd()}}".encode()]
"""

MISSING = "systemd is not installed: apt-get install systemd"


class Unit:
    """A unit of examples/, and the service that it is, in a directory that stands for the root of the file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text = self.mapped("poorhttp.service")
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(str(root / "notify"))
        self.told.settimeout(PATIENCE)
        self.environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "NOTIFY_SOCKET": str(root / "notify")}
        self.environ["WATCHDOG_USEC"] = str(int(self.value("WatchdogSec")) * 1_000_000)
        self.user = self._user()
        self.process: subprocess.Popen[bytes] | None = None

    def mapped(self, name: str) -> str:
        """A file of examples/ with its paths in the directory, and a port that is free."""
        text = (ROOT / "examples" / name).read_text()
        return re.sub(rf"(?<=[\s=])({'|'.join(PLACES)})", rf"{self.root}\1", text)

    def value(self, key: str) -> str:
        (found,) = re.findall(rf"^{key}=(.*)$", self.text, re.MULTILINE)
        return str(found)

    def prepare(self) -> None:
        """Take the steps that the file tells, but for what needs an index of packages."""
        venv = self.root / "opt/mysite/venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
        (packages,) = venv.glob("lib/python*/site-packages")
        (packages / "poorhttp.pth").write_text(f"{ROOT}\n")
        (packages / "installed.py").write_text("NAME = 'a package of its own'\n")
        script = venv / "bin/poorhttp"
        script.write_text(f"#!{venv}/bin/python\nfrom poorhttp.cli import entry\nentry()\n")
        script.chmod(0o755)
        (self.root / "opt/mysite/mysite").mkdir()
        (self.root / "etc").mkdir()
        (self.root / "etc/poorhttp.ini").write_text(self.mapped("service.ini").replace("port = 8080", "port = 0"))
        for place in f"run/{self.value('RuntimeDirectory')}", f"var/log/{self.value('LogsDirectory')}":
            (self.root / place).mkdir(parents=True)
            if self.user is not None:
                os.chown(self.root / place, self.user, -1)
        if self.user is not None:
            (self.root / "notify").chmod(0o666)

    def write(self, text: str) -> None:
        (self.root / "opt/mysite/mysite/wsgi.py").write_text(PROGRAM.format(text=text))

    def start(self) -> None:
        with (self.root / "journal").open("wb") as journal:
            self.process = subprocess.Popen(
                shlex.split(self.value("ExecStart")),
                cwd="/",
                env=self.environ,
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        while "READY=1" not in self.told.recv(4096).decode().split("\n"):
            pass

    def reload(self) -> int:
        assert self.process is not None
        environ = {**self.environ, "MAINPID": str(self.process.pid)}
        command = shlex.split(self.value("ExecReload").replace("$MAINPID", environ["MAINPID"]))
        return subprocess.run(command, cwd="/", env=environ, user=self.user, timeout=60, check=False).returncode

    def journal(self) -> str:
        return (self.root / "journal").read_text()

    def page(self) -> str:
        found = re.search(r"http://127\.0\.0\.1:\d+/", self.journal())
        assert found, self.journal()
        with urllib.request.urlopen(found[0], timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def _user(self) -> int | None:
        """The one of the file, where this is root and that user may run this very Python; else nobody else."""
        with contextlib.suppress(KeyError, OSError):
            user = pwd.getpwnam(self.value("User")).pw_uid if os.geteuid() == 0 else None
            command = [sys.executable, "-c", "import poorhttp._engine"]
            environ = {"PYTHONPATH": str(ROOT)}
            subprocess.run(command, check=False, user=user, cwd="/", env=environ, timeout=30).check_returncode()
            return user
        return None


@pytest.fixture
def unit() -> Iterator[Unit]:
    """Not in a directory of pytest, which others may not enter."""
    with tempfile.TemporaryDirectory(prefix="poorhttp-") as name:
        Path(name).chmod(0o755)
        unit = Unit(Path(name))
        unit.prepare()
        with unit.told:
            try:
                yield unit
            finally:
                if unit.process is not None and unit.process.poll() is None:
                    os.killpg(unit.process.pid, signal.SIGKILL)
                    unit.process.wait(PATIENCE)


def test_the_service_is_started_reloaded_and_stopped(unit: Unit) -> None:
    place = f"a package of its own {unit.root}/opt/mysite"
    unit.write("first")
    unit.start()
    assert unit.process is not None
    assert unit.page() == f"first {place}"
    unit.write("second")
    assert unit.reload() == 0
    assert unit.page() == f"second {place}"
    (unit.root / "opt/mysite/mysite/wsgi.py").write_text("import none_such\n")
    assert unit.reload() == 1
    assert "ModuleNotFoundError: No module named 'none_such'" in unit.journal()
    assert unit.page() == f"second {place}"
    status = shlex.split(unit.value("ExecReload").replace(" reload ", " status "))
    told = subprocess.run(status, capture_output=True, text=True, timeout=30, check=False)
    assert (told.returncode, told.stdout.partition(",")[0]) == (0, f"running: pid {unit.process.pid}")
    log = unit.root / "var/log/poorhttp/access.log"
    wait_for(lambda: log.read_text().count("GET / HTTP/1.1") == 3, "three lines in the access log")
    unit.process.send_signal(signal.SIGTERM)
    assert unit.process.wait(PATIENCE) == 0
    assert list((unit.root / "run/poorhttp").iterdir()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason=MISSING)
def test_the_units_are_understood(unit: Unit) -> None:
    for name in "poorhttp.service", "poorhttp.socket":
        (unit.root / name).write_text(unit.mapped(name))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit.root / "poorhttp.service"), str(unit.root / "poorhttp.socket")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if str(unit.root) in line or "poorhttp" in line]
    assert complaints == []
