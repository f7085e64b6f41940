"""A real Apache: prefork and mod_python, configured as in the article of 2010, with the pages of the examples.

Knows its configuration, how it is started and how it ends; measures nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.client import Failure, Missing
from bench.front import PLACES
from bench.launch import (
    APPS,
    ENDS_WITH_US,
    ROOT,
    Running,
    Setting,
    expected,
    free_port,
    last_line,
    pinned,
    stop,
    wait_until_right,
)
from bench.workloads import Workload

MODULES = Path("/usr/lib/apache2/modules")
INSTALL = "apt-get install apache2 libapache2-mod-python"
AS_THEN = {"spare": 10, "requests": 2000, "handler": "poorhttp.dispatch.mod_python"}
KEPT = {**AS_THEN, "spare": 220, "requests": 0}  # no child is ended, so none imports the application anew
PLAIN = {**KEPT, "handler": "mod_python_pages"}
PYTHON = "/usr/bin/python3"  # the one that Debian's mod_python has inside
# The numbers are the article's, which names no access log. Apache makes MaxSpareServers one more than MinSpareServers.
CONFIGURATION = """\
ServerRoot {directory}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {directory}/httpd.pid
DefaultRuntimeDir {directory}
Mutex file:{directory} default
ErrorLog {directory}/error.log
DocumentRoot {directory}
{user}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule python_module {modules}/mod_python.so
Timeout 300
KeepAlive Off
UseCanonicalName Off
HostnameLookups Off
StartServers 10
MinSpareServers 10
MaxSpareServers {spare}
MaxRequestWorkers 220
MaxConnectionsPerChild {requests}
PythonOptimize On
<Location />
    SetHandler mod_python
    PythonHandler {handler}
    PythonPath "['{directory}/examples', '{directory}/package'] + sys.path"
    PythonDebug Off
    PythonAutoReload Off
</Location>
"""


def program() -> str:
    """The path of Apache; raises Missing where it or one of its modules is missing."""
    found = shutil.which("apache2", path=PLACES)
    if found is None:
        raise Missing("Apache", INSTALL)
    for name in ("mpm_prefork", "python"):
        if not (MODULES / f"mod_{name}.so").exists():
            raise Missing(f"mod_{name}, which is looked for in {MODULES},", INSTALL)
    return found


@contextlib.contextmanager
def apache(workload: Workload, setting: Setting, kind: Mapping[str, object]) -> Iterator[Running]:
    """Apache on the servers' cores, ready when it gives the right answer; a Failure meanwhile gets a line of its log.

    The workload's page must be one of the examples. kind: AS_THEN, KEPT or PLAIN.
    """
    binary, port = program(), free_port()
    directory = _directory(setting)
    log = directory / "error.log"
    log.unlink(missing_ok=True)
    configuration = directory / "httpd.conf"
    user = "User nobody\nGroup nogroup" if os.getuid() == 0 else ""
    names = {"directory": directory, "port": port, "modules": MODULES, "user": user, **kind}
    configuration.write_text(CONFIGURATION.format_map(names))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with (directory / "output").open("wb") as output, pinned(setting.cores):
        # In a session of its own: Apache sends the signal that ends it to its whole process group.
        process = subprocess.Popen(
            [*ENDS_WITH_US, binary, "-f", str(configuration), "-DFOREGROUND"], env=environ, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        run = Running(process, port)
        run.remark = wait_until_right(run, workload, expected(workload, setting))
        yield run
    except Missing:
        raise
    except Failure as failure:
        lines = (log if log.exists() else directory / "output").read_bytes()
        raise Failure(f"{failure}; log: {last_line(lines) or 'empty'}") from failure
    finally:
        stop(process)


def _directory(setting: Setting) -> Path:
    """Where Apache's user, which is not root, finds the application and the package, compiled."""
    directory = setting.work / "apache"
    if not directory.exists():
        shutil.copytree(ROOT / "examples", directory / "examples")
        shutil.copy(APPS / "mod_python_pages.py", directory / "examples")
        no_engine = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / "poorhttp", directory / "package" / "poorhttp", ignore=no_engine)
        # Else each child would compile all of it anew, as it may write nothing there.
        command = [PYTHON, "-O", "-m", "compileall", "-q", str(directory)]
        try:
            subprocess.run(command, capture_output=True, timeout=60, check=False)
        except OSError as error:
            raise Failure(f"{PYTHON} cannot be run: {error.strerror}") from error
    return directory
