"""A unit of examples/ and the service that it is, started, reloaded and stopped as systemd would do it: by the commands
of the file itself, with its paths in a directory of the test.
"""

import contextlib
import os
import pwd
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from starter import PATIENCE, ROOT, UnixConnection

PLACES = "/opt/", "/etc/", "/run/", "/var/log/"
"""Where the paths of the examples begin."""

PROGRAM = """
import os
import installed

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{text} {{installed.NAME}} {{os.getcwd()}}".encode()]
"""


class Unit:
    """A unit of examples/, and the service that it is, in a directory that stands for the root of the file system.

    name: of the unit. instance: what stands after the @ of a template. settings: the file of examples/ that becomes the
    ini file of the unit.
    """

    def __init__(self, root: Path, name: str, settings: str, instance: str = "") -> None:
        self.root, self.instance, self.settings = root, instance, settings
        self.text = self.mapped(name)
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
        text = text.replace("%i", self.instance) if self.instance else text
        return re.sub(rf"(?<=[\s=:\"])({'|'.join(PLACES)})", rf"{self.root}\1", text)

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
        ini = Path(shlex.split(self.value("ExecStart"))[-1])
        ini.parent.mkdir(parents=True)
        ini.write_text(self.mapped(self.settings).replace("port = 8080", "port = 0"))
        for place in self.run, self.logs:
            place.mkdir(parents=True)
            if self.user is not None:
                os.chown(place, self.user, -1)
        if self.user is not None:
            (self.root / "notify").chmod(0o666)

    @property
    def run(self) -> Path:
        """The directory of the pidfile and of sockets."""
        return self.root / "run" / self.value("RuntimeDirectory")

    @property
    def logs(self) -> Path:
        return self.root / "var/log" / self.value("LogsDirectory")

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
        if found is None:
            with contextlib.closing(UnixConnection(self.run / "http.sock")) as client:
                client.request("GET", "/")
                return client.getresponse().read().decode()
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


@contextlib.contextmanager
def service(name: str, settings: str, instance: str = "") -> Iterator[Unit]:
    """Prepare a unit, and end its service afterwards. Not in a directory of pytest, which others may not enter."""
    with tempfile.TemporaryDirectory(prefix="poorhttp-") as directory:
        Path(directory).chmod(0o755)
        unit = Unit(Path(directory), name, settings, instance)
        unit.prepare()
        with unit.told:
            try:
                yield unit
            finally:
                if unit.process is not None and unit.process.poll() is None:
                    os.killpg(unit.process.pid, signal.SIGKILL)
                    unit.process.wait(PATIENCE)


def complaints(unit: Unit, *names: str) -> list[str]:
    """What systemd says about these units of examples/."""
    files = []
    for name in names:
        path = unit.root / Path(name).name.replace("@", f"@{unit.instance}")
        path.write_text(unit.mapped(name))
        files.append(path)
    command = ["systemd-analyze", "verify", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return [line for line in done.stderr.splitlines() if str(unit.root) in line or "poorhttp" in line]
