"""The real Apache with mod_python for tests: one process tree that serves dispatch tables, each at a port of its own.

Knows the configuration that Apache needs, among it the modules and settings that Debian enables. Knows nothing of
tables. Contract: an Apache that was started listens at all its ports, and is gone with its files when it is stopped.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from comparing import Ask, asker
from fronts import PLACES, free_port, listens
from processes import package_home, wait_for

PROGRAM = shutil.which("apache2", path=PLACES)
MODULES = Path("/usr/lib/apache2/modules")

needs_apache = pytest.mark.skipif(
    PROGRAM is None or not (MODULES / "mod_python.so").exists(),
    reason="mod_python is not installed: apt-get install apache2 libapache2-mod-python",
)

# Debian enables these; each has its part in what becomes of a request or an answer.
USUAL = ("alias", "authz_core", "authz_host", "deflate", "dir", "env", "filter", "mime", "negotiation", "reqtimeout")

CONFIGURATION = """
ServerRoot {directory}
ServerName localhost
PidFile {directory}/httpd.pid
DefaultRuntimeDir {directory}
Mutex file:{directory} default
ErrorLog {directory}/error.log
DocumentRoot {directory}/apache
{user}
{modules}
TypesConfig /etc/mime.types
AddLanguage cs .cs
RequestReadTimeout header=20-40,minrate=500 body=10,minrate=500
{processes}
"""

PROCESSES = {
    "prefork": "StartServers 2\nMinSpareServers 1\nMaxSpareServers 2\nMaxRequestWorkers 6",
    "worker": "StartServers 1\nThreadsPerChild 6\nMinSpareThreads 1\nMaxSpareThreads 6\nMaxRequestWorkers 6",
    "event": "StartServers 1\nThreadsPerChild 6\nMinSpareThreads 1\nMaxSpareThreads 6\nMaxRequestWorkers 6",
}

SITE = """
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
{tls}
{host}
<Location {location}>
    SetHandler mod_python
    PythonHandler poorhttp.dispatch.mod_python
    PythonInterpreter {name}
    PythonPath "['{application}', '{package}'] + sys.path"
    PythonAutoReload Off
{options}
</Location>
</VirtualHost>
"""

TLS = """
SSLEngine on
SSLCertificateFile {directory}/certificate.pem
SSLCertificateKeyFile {directory}/key.pem
"""


@dataclass(frozen=True)
class Site:
    """One table at one port. table: its text, or a directory that has it. options: more lines of its Location, host:
    of its virtual host.
    """

    name: str
    table: str | Path
    options: str = ""
    host: str = ""
    location: str = "/"
    is_tls: bool = False


class Apache:
    """directory: one that Apache's user may enter; `www` in it is for the files of sites. ports: by name of a site."""

    def __init__(self, *sites: Site, mpm: str = "prefork") -> None:
        """In options of a site, DIRECTORY stands for the directory."""
        self.directory = Path(tempfile.mkdtemp(prefix="poorhttp-apache-"))
        self.directory.chmod(0o755)
        for name in ("www", "apache", "data"):
            (self.directory / name).mkdir()
        (self.directory / "data").chmod(0o777)
        self.ports = {site.name: free_port() for site in sites}
        self._mpm = mpm
        self._sites = sites
        self._process: subprocess.Popen[bytes] | None = None
        for site in sites:
            place = self.application(site.name)
            if isinstance(site.table, Path):
                shutil.copytree(site.table, place)
            else:
                place.mkdir()
                (place / "dispatch_table.py").write_text(site.table.replace("DIRECTORY", str(self.directory)))

    def application(self, name: str) -> Path:
        """The directory that has the table of a site."""
        return self.directory / f"site-{name}"

    def start(self) -> Apache:
        configuration = self.directory / "httpd.conf"
        configuration.write_text(self._configuration())
        # A session of its own: Apache sends the signal that ends it to its whole process group.
        command = [str(PROGRAM), "-f", str(configuration), "-DFOREGROUND"]
        with (self.directory / "output").open("wb") as output:
            process = self._process = subprocess.Popen(command, stderr=output, start_new_session=True)
        for port in self.ports.values():
            wait_for(lambda port=port: listens("127.0.0.1", port) or process.poll() is not None, "Apache to listen")
        assert process.poll() is None, (self.directory / "output").read_text() + self.log()
        return self

    def _configuration(self) -> str:
        has_tls = any(site.is_tls for site in self._sites)
        modules = (f"mpm_{self._mpm}", "python", *USUAL, *(("ssl",) if has_tls else ()))
        if has_tls:
            make_certificate(self.directory)
        text = CONFIGURATION.format(
            directory=self.directory,
            modules="\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules),
            user="User nobody\nGroup nogroup" if os.getuid() == 0 else "",
            processes=PROCESSES[self._mpm],
        )
        for site in self._sites:
            text += SITE.format(
                port=self.ports[site.name],
                tls=TLS.format(directory=self.directory) if site.is_tls else "",
                host=site.host.replace("DIRECTORY", str(self.directory)),
                location=site.location,
                name=site.name,
                application=self.application(site.name),
                package=package_home(),
                options=site.options.replace("DIRECTORY", str(self.directory)),
            )
        return text

    def log(self) -> str:
        file = self.directory / "error.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def ask(self, name: str) -> Ask:
        """Ask one site over plain http."""
        return asker(self.ports[name])

    def connect(self, name: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.ports[name]), 20)

    def reload(self) -> None:
        """As `apachectl graceful` does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
        shutil.rmtree(self.directory)


def make_certificate(directory: Path) -> None:
    """A certificate for localhost that signs itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = [openssl, "req", "-x509", *key, "-out", "certificate.pem", "-days", "2", *subject]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=30)
