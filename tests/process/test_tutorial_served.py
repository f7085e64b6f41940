"""The last step of docs/tutorial.md: its files and commands make a server in a directory that stands for the root of the
file system, behind the real lighttpd with https, in each type.

What a test cannot do by the command of the page is named in `Machine.run`: packages, the certificate, the service manager.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
import tutorial
from fronts import free_port, listens, program
from starter import ROOT, Server, Start, wait_for
from tutorial import PASSWORD

EXAMPLE = ROOT / "examples" / "guestbook"
PLACES = "/opt/", "/etc/", "/run/", "/var/"
PNG = b"\x89PNG\r\n\x1a\n and more"
HOST = "www.example.com"


class Machine:
    """A host on which the commands of the page are typed. It stands in for root, the network and systemd."""

    def __init__(self, root: Path, kind: str, launch: Start) -> None:
        self.root = root
        self.kind = kind
        self.server: Server | None = None
        self.front: subprocess.Popen[bytes] | None = None
        self.ports = {"8080": free_port(), "80": free_port(), "443": free_port()}
        self.environ = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin", "PYTHONPATH": str(ROOT)}
        self.said: list[str] = []
        self._launch = launch
        for directory in "etc/systemd/system", "etc/lighttpd", "opt", "run/poorhttp", "var/lib", "var/log/poorhttp":
            (root / directory).mkdir(parents=True)

    def mapped(self, text: str) -> str:
        """A text of the page with its paths in the directory, and ports that are free."""
        text = re.sub(rf"(?<![\w.,])({'|'.join(PLACES)})", rf"{self.root}\1", text)
        text = text.replace("/usr/src/poorhttp", str(ROOT)).replace("port = 8080", f"port = {self.ports['8080']}")
        text = text.replace('"port" => 8080', f'"port" => {self.ports["8080"]}')
        text = text.replace("server.port = 80\n", f'server.bind = "127.0.0.1"\nserver.port = {self.ports["80"]}\n')
        return text.replace('":443"', f'"127.0.0.1:{self.ports["443"]}"')

    def follow(self) -> None:
        for block in tutorial.steps()["A server"]:
            if block.kind == "typed":
                for line in block.text.splitlines():
                    self.run(line)
                continue
            text = self.mapped(block.text)
            if block.name == "/etc/poorhttp.ini" and self.kind != "forking":
                text = text.replace("type = forking\nprocesses = 2", f"type = {self.kind}")
            tutorial.written(block._replace(text=text), self.root)

    def run(self, line: str) -> None:
        """Run a line. Root's part is left out: the test's user is that of the server."""
        words = line.split()
        if words[0] == "apt-get":
            return
        if words[0] == "systemctl":
            self.manage(" ".join(words[1:]))
            return
        if words[0] == "ssh":
            self.manage(" ".join(words[3:]))
            return
        if words[0] == "certbot":
            self.certify(self.root / "opt/guestbook/www")
            return
        if "-m venv" in line or "pip install" in line:
            self.install(self.root / "opt/guestbook/venv/bin")
            return
        line = line.replace("runuser -u www-data -- ", "").replace("-o www-data ", "")
        line = line.replace("scp ", "cp ").replace(f"root@{HOST}:", "").replace("python3 ", f"{sys.executable} ")
        if line.startswith("export "):
            name, _, value = self.mapped(line.removeprefix("export ")).partition("=")
            self.environ[name] = value
            return
        done = subprocess.run(
            ["bash", "-ec", self.mapped(line)],
            cwd=EXAMPLE,
            env=self.environ,
            input=PASSWORD + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            start_new_session=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        self.said.append(done.stdout)
        configuration = self.root / "etc/lighttpd/lighttpd.conf"
        if str(configuration) in self.mapped(line) and ">" in line:
            configuration.write_text(self.mapped(configuration.read_text()))

    def install(self, programs: Path) -> None:
        """As a venv and pip would, without an index of packages."""
        programs.mkdir(parents=True, exist_ok=True)
        for name, module in ("poorhttp", "-m poorhttp"), ("python", ""):
            (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
            (programs / name).chmod(0o755)

    def certify(self, webroot: Path) -> None:
        """As certbot does: prove over http that the host is ours, then get a certificate (here one of our own)."""
        challenge = webroot / ".well-known/acme-challenge/token"
        challenge.parent.mkdir(parents=True)
        challenge.write_text("proof")
        url = f"http://127.0.0.1:{self.ports['80']}/.well-known/acme-challenge/token"
        assert requests.get(url, timeout=20).text == "proof"
        live = self.root / "etc/letsencrypt/live" / HOST
        live.mkdir(parents=True)
        subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1"]
        files = ["-keyout", live / "privkey.pem", "-out", live / "fullchain.pem"]
        command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def manage(self, order: str) -> None:
        """What systemd does for an order."""
        if order == "enable --now poorhttp":
            self.start()
        elif order == "reload poorhttp":
            assert self.reload() == 0
        elif order == "restart poorhttp":
            assert self.server is not None and self.server.stop() == 0
            self.start()
        elif order == "restart lighttpd":
            self.end_front()
            self.start_front()
            if (self.root / "etc/letsencrypt").exists():
                ada = Visitor(self)
                assert "Log out ada" in ada.log_in().text, "the page says: open it and log in"
                ada.session.close()
        else:
            assert order == "daemon-reload"

    def unit(self, key: str) -> list[str]:
        """The words behind a key of the unit and its drop-ins."""
        folder = self.root / "etc/systemd/system"
        texts = [each.read_text() for each in [folder / "poorhttp.service", *folder.glob("poorhttp.service.d/*")]]
        return [word for text in texts for line in re.findall(rf"^{key}=(.*)", text, re.M) for word in line.split()]

    def start(self) -> None:
        environ = {}
        for file in self.unit("EnvironmentFile"):
            environ |= dict(line.split("=", 1) for line in Path(self.mapped(file)).read_text().splitlines())
        program, *arguments = self.mapped(" ".join(self.unit("ExecStart"))).split()
        assert Path(program).exists()
        self.server = self._launch(*arguments, **environ)
        self.server.await_address()
        self.server.await_serving(2 if self.kind == "forking" else 1)

    def reload(self) -> int:
        command = self.mapped(" ".join(self.unit("ExecReload"))).split()
        return subprocess.run(command, env=self.environ, capture_output=True, timeout=60, check=False).returncode

    def start_front(self) -> None:
        file = self.root / "etc/lighttpd/lighttpd.conf"
        log = (self.root / "front.log").open("wb")
        with log:
            self.front = subprocess.Popen([program("lighttpd"), "-D", "-f", file], stdout=log, stderr=log)
        front, port = self.front, self.ports["443" if "mod_openssl" in file.read_text() else "80"]
        wait_for(lambda: listens("127.0.0.1", port) or front.poll() is not None, "lighttpd to listen")
        assert front.poll() is None, (self.root / "front.log").read_text()

    def end_front(self) -> None:
        if self.front is not None:
            self.front.terminate()
            self.front.wait(20)


class Visitor:
    """A browser behind https. Its requests say that they are for the host of the page."""

    def __init__(self, machine: Machine) -> None:
        self.session = requests.Session()
        self.session.trust_env = False  # else certificates that a variable names would replace `verify`
        self.session.headers.update({"Host": HOST, "Origin": f"https://{HOST}"})
        self.session.verify = str(machine.root / "etc/letsencrypt/live" / HOST / "fullchain.pem")
        self._url = f"https://127.0.0.1:{machine.ports['443']}"

    def ask(self, path: str = "/", **form: object) -> requests.Response:
        """Load a page, or send a form; a redirect, which names no host, is followed."""
        answer = self.session.post if form else self.session.get
        sent: requests.Response = answer(self._url + path, timeout=20, allow_redirects=False, **form)
        return self.ask(sent.headers["Location"]) if sent.is_redirect else sent

    def log_in(self) -> requests.Response:
        return self.ask("/login", data={"name": "ada", "password": PASSWORD})


@pytest.fixture(params=["single", "threading", "forking"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, launch: Start) -> Iterator[Machine]:
    modules = Path(program("lighttpd")).parents[1] / "lib/lighttpd/mod_openssl.so"
    if not modules.exists() and not Path("/usr/lib/lighttpd/mod_openssl.so").exists():
        pytest.skip("lighttpd speaks no https: apt-get install lighttpd-mod-openssl")
    made = Machine(tmp_path / "root", request.param, launch)
    try:
        yield made
    finally:
        made.end_front()


@pytest.mark.timeout(180)
def test_the_guest_book_is_served(machine: Machine) -> None:
    machine.follow()
    assert machine.server is not None
    status = next(text for text in machine.said if text.startswith("running: pid"))
    assert status.count(" serving ") == (2 if machine.kind == "forking" else 1)
    ada, eve = Visitor(machine), Visitor(machine)
    try:
        entered(machine, ada, eve)
        written_at_once(ada, eve)
        renewed(machine, ada)
    finally:
        ada.session.close()
        eve.session.close()
    lines = (machine.root / "var/log/poorhttp/access.log").read_text()
    assert "127.0.0.1 - - [" in lines and '"POST /login HTTP/1.' in lines and PASSWORD not in lines
    assert machine.server.stop() == 0
    assert machine.server.said.count("Traceback") == 1, "that of the broken code which was not taken"


def entered(machine: Machine, ada: Visitor, eve: Visitor) -> None:
    """Plain http leads to https; a login has a cookie for https; forms of other sites are refused."""
    plain = requests.get(
        f"http://127.0.0.1:{machine.ports['80']}/login?a=1", headers={"Host": HOST}, timeout=20, allow_redirects=False
    )
    assert (plain.status_code, plain.headers["Location"]) == (301, f"https://{HOST}/login?a=1")
    assert ada.ask("/style.css").headers["Content-Type"] == "text/css; charset=utf-8"
    assert "<form" not in eve.ask().text
    eve.session.headers["Origin"] = "https://evil.example"
    assert eve.log_in().status_code == 403
    assert "Log out ada" in ada.log_in().text
    (cookie,) = ada.session.cookies
    assert cookie.name == "__Host-session" and cookie.secure
    page = ada.ask(data={"text": "hello"}, files={"picture": ("p.png", PNG, "image/png")}).text
    (picture,) = re.findall(r'<img src="(.*?)"', page)
    assert eve.ask(picture).content == PNG
    assert machine.server is not None
    environ = Path(f"/proc/{machine.server.pid}/environ").read_bytes()
    assert b"PAYMENT_KEY=8d1f..." in environ, "systemd gives the secret to the server"


def written_at_once(ada: Visitor, eve: Visitor) -> None:
    """Eight browsers of one user write and read at the same time: no entry is lost, none is there twice."""

    def write(number: int) -> int:
        browser = Visitor.__new__(Visitor)
        browser.__dict__ |= ada.__dict__
        return browser.ask(data={"text": f"entry {number};"}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(write, range(40))] == [200] * 40
    assert sorted(map(int, re.findall(r"entry (\d+);", eve.ask().text))) == [*range(40)]


def renewed(machine: Machine, ada: Visitor) -> None:
    """A reload serves new code to a user who stays logged in; broken code changes nothing."""
    pages = machine.root / "opt/guestbook/dispatch_table.py"
    text = pages.read_text()
    pages.write_text(text.replace('page("Guest book"', "page(broken"))
    assert machine.reload() != 0, "a start page that fails does not pass check_path"
    assert "<h1>Guest book</h1>" in ada.ask().text
    pages.write_text(text.replace('"Guest book"', '"Visitors"'))
    assert machine.reload() == 0
    page = ada.ask().text
    assert "<h1>Visitors</h1>" in page and "Log out ada" in page
    assert "<form" not in ada.ask("/logout", data={"": ""}).text
