"""/debug-info under the real Apache: for clients of this machine, also where mod_remoteip takes a client at its word."""

import http.client
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fronts import PLACES, free_port, listens
from processes import package_home, wait_for

APACHE = shutil.which("apache2", path=PLACES)
MODULES = Path("/usr/lib/apache2/modules")

pytestmark = pytest.mark.skipif(
    APACHE is None or not (MODULES / "mod_python.so").exists(),
    reason="mod_python is not installed: apt-get install apache2 libapache2-mod-python",
)

TABLE = """
from poorhttp import http

def form(req):
    return req.args["name"]

handlers = {"/form": (http.METHOD_GET, form)}
"""

CONFIGURATION = """
ServerRoot {directory}
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {directory}/httpd.pid
DefaultRuntimeDir {directory}
Mutex file:{directory} default
ErrorLog {directory}/error.log
{user}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule remoteip_module {modules}/mod_remoteip.so
LoadModule python_module {modules}/mod_python.so
StartServers 1
RemoteIPHeader X-Client
RemoteIPInternalProxy 127.0.0.1
SetHandler mod_python
PythonHandler poorhttp.dispatch.mod_python
PythonPath "['{directory}', '{package}'] + sys.path"
PythonAutoReload Off
PythonOption poorhttp.debug yes
PythonOption mail_password qwerty1uiop
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    directory = Path(tempfile.mkdtemp(prefix="poorhttp-apache-"))  # one that Apache's user may enter
    directory.chmod(0o755)
    (directory / "dispatch_table.py").write_text(TABLE)
    port = free_port()
    user = "User nobody\nGroup nogroup" if os.getuid() == 0 else ""
    text = CONFIGURATION.format(directory=directory, port=port, modules=MODULES, package=package_home(), user=user)
    (directory / "httpd.conf").write_text(text)
    # A session of its own: Apache sends the signal that ends it to its whole process group.
    command = [str(APACHE), "-f", str(directory / "httpd.conf"), "-DFOREGROUND"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: listens("127.0.0.1", port), "Apache to listen")
        yield port
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(directory)


def ask(port: int, path: str, **fields: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in fields.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_author_sees_it_and_nobody_else(port: int) -> None:
    status, text = ask(port, "/debug-info")
    assert status == 200 and "dispatch_table.form" in text and "Apache" in text and "qwerty1uiop" not in text
    for fields in (
        {"Host": "example.com"},
        {"X_Forwarded_For": "127.0.0.1"},
        {"X_Client": "192.0.2.7"},
        {"X_Client": "::1"},
    ):
        assert ask(port, "/debug-info", **fields)[0] == 404, fields
    assert "the field &#x27;name&#x27; is missing" in ask(port, "/form")[1]
