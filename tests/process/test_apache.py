"""Under the real Apache with mod_python a dispatch table gives the answers that it gives under poorhttp, but for times."""

import http.client
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fronts import PLACES, free_port, listens
from processes import package_home, wait_for
from server import Server

APACHE = shutil.which("apache2", path=PLACES)
MODULES = Path("/usr/lib/apache2/modules")

pytestmark = pytest.mark.skipif(
    APACHE is None or not (MODULES / "mod_python.so").exists(),
    reason="mod_python is not installed: apt-get install apache2 libapache2-mod-python",
)

CONFIGURATION = """
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
StartServers 1
MinSpareServers 1
MaxSpareServers 2
MaxRequestWorkers 4
<Location />
    SetHandler mod_python
    PythonHandler poorhttp.dispatch.mod_python
    PythonPath "['{application}', '{package}'] + sys.path"
    PythonAutoReload Off
    PythonOption poorhttp.webmaster "gr\u00fc\u00dfe@example.com"
    PythonOption poorhttp.document {directory}/www
    PythonOption poorhttp.index yes
    PythonOption greeting "ahoj sv\u011bte"
</Location>
"""

INI = """
[http]
webmaster = gr\u00fc\u00dfe@example.com
document = {directory}/www
index = yes
[application]
greeting = ahoj sv\u011bte
"""

TABLE = """
from poorhttp import http

def form(req):
    req.content_type = "text/plain"
    for name in ("a", "b"):
        req.write(f"{name}={req.form.getlist(name)}\\n")
    for upload in req.files.list:
        req.write(f"{upload.name} {upload.filename} {upload.type} {upload.file.read()!r}\\n")
    req.write(repr(req.args.getlist("q")) + repr(req.headers_in.get("X-Text")))
    return http.DONE

def cookie(req):
    req.set_cookie("one", "1")
    req.set_cookie("two", "2")
    req.headers_out["X-Latin"] = "\\xe9"
    return {"cookies": req.cookies, "options": req.get_options()}

def user(req, name, number):
    return f"{name} {number} {req.url_for('user', name=name, number=number)} {req.uri} {req.construct_url('/x')}"

def moved(req):
    http.redirect(req, "/cookie")

def broken(req):
    raise ValueError("on purpose")

def status(req, code):
    return http.Response("text of " + str(code), code)

def stream(req):
    yield "first "
    yield b"second"

def cut(req):
    yield "first"
    raise ValueError("in the middle")

def short(req):
    req.headers_out["Content-Length"] = "100"
    yield "first"

def large(req):
    for _ in range(1000):
        req.write(b"x" * 100_000)
    return http.DONE

def nothing(req):
    return ""

handlers = {
    "/form": (http.METHOD_GET | http.METHOD_POST, form), "/cookie": (http.METHOD_GET, cookie),
    "/user/<name>/<number:int>": (http.METHOD_GET, user), "/moved": (http.METHOD_GET, moved),
    "/broken": (http.METHOD_GET, broken), "/status/<code:int>": (http.METHOD_GET, status),
    "/stream": (http.METHOD_GET, stream), "/cut": (http.METHOD_GET, cut), "/short": (http.METHOD_GET, short),
    "/large": (http.METHOD_GET, large), "/nothing": (http.METHOD_GET, nothing),
}
"""

UPLOAD = (
    b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xc5\x99\r\n'
    b'--b\r\nContent-Disposition: form-data; name="f"; filename="x.bin"\r\nContent-Type: image/png\r\n\r\n\x00\xff\r\n--b--\r\n'
)

Ask = Callable[..., tuple[int, str, list[tuple[str, str]], bytes]]


def asker(port: int) -> Ask:
    def ask(
        method: str, path: str, body: bytes | None = None, **fields: str
    ) -> tuple[int, str, list[tuple[str, str]], bytes]:
        """Status, reason, fields but those of the connection and the time, and the body with the time left out."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        try:
            connection.request(method, path, body, {"Host": "example.com", **headers})
            answer = connection.getresponse()
            of_server = ("date", "server", "connection", "keep-alive", "transfer-encoding")
            told = sorted((name.lower(), text) for name, text in answer.getheaders() if name.lower() not in of_server)
            text = re.sub(rb"\d\d:\d\d:\d\d|(md5|sha1): \w+|Python version: [^;]*", b"", answer.read())
            return answer.status, answer.reason, told, text
        finally:
            connection.close()

    return ask


class Apache:
    def __init__(self, table: str | Path) -> None:
        """table: the text of one, or a directory that has one. The directory is one that Apache's user may enter."""
        self.directory = Path(tempfile.mkdtemp(prefix="poorhttp-apache-"))
        self.directory.chmod(0o755)
        self.application = self.directory / "application"
        if isinstance(table, Path):
            shutil.copytree(table, self.application)
        else:
            self.application.mkdir()
            (self.application / "dispatch_table.py").write_text(table)
        (self.directory / "www").mkdir()
        (self.directory / "www" / "page.txt").write_text("0123456789" * 20000)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        configuration = self.directory / "httpd.conf"
        configuration.write_text(
            CONFIGURATION.format(
                directory=self.directory,
                port=self.port,
                modules=MODULES,
                application=self.application,
                package=package_home(),
                user="User nobody\nGroup nogroup" if os.getuid() == 0 else "",
            )
        )
        # A session of its own: Apache sends the signal that ends it to its whole process group.
        self._process = subprocess.Popen(
            [str(APACHE), "-f", str(configuration), "-DFOREGROUND"], stderr=subprocess.DEVNULL, start_new_session=True
        )
        wait_for(lambda: listens("127.0.0.1", self.port), "Apache to listen")

    def log(self) -> str:
        return (self.directory / "error.log").read_text()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
        shutil.rmtree(self.directory)


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    started = Apache(TABLE)
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def both(apache: Apache, serve: Callable[..., Server]) -> tuple[Ask, Ask]:
    """Ask Apache, and poorhttp with the same table."""
    ours = serve(str(apache.application), errors=("on purpose",), ini=INI.format(directory=apache.directory))
    return asker(apache.port), asker(ours.address[1])


REQUESTS: list[tuple[str, str, bytes | None, dict[str, str]]] = [
    ("GET", "/form?q=%C5%99&q=a+b", None, {"X_Text": "h\xc5\x99"}),
    ("POST", "/form", b"a=%C5%99&b=1&b=2", {"Content_Type": "application/x-www-form-urlencoded"}),
    ("POST", "/form", UPLOAD, {"Content_Type": "multipart/form-data; boundary=b"}),
    ("GET", "/cookie", None, {"Cookie": "a=1; b=2"}),
    ("GET", "/user/%C5%99%20x/-7", None, {}),
    ("GET", "/moved", None, {}),
    ("GET", "/missing%3Cb%3E", None, {}),
    ("GET", "/%FF", None, {}),
    ("DELETE", "/cookie", None, {}),
    ("OPTIONS", "/cookie", None, {}),
    ("PROPFIND", "/cookie", None, {}),
    ("GET", "/broken", None, {}),
    ("GET", "/nothing", None, {}),
    ("GET", "/status/201", None, {}),
    ("GET", "/status/418", None, {}),
    ("GET", "/status/499", None, {}),
    ("GET", "/stream", None, {}),
    ("GET", "/page.txt", None, {}),
    ("GET", "/page.txt", None, {"Range": "bytes=5-14"}),
    ("GET", "/page.txt", None, {"Range": "bytes=900000-"}),
    ("GET", "/page.txt", None, {"If_None_Match": "*"}),
    ("GET", "/", None, {}),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each[0]} {each[1]}")
def test_the_answers_are_those_of_poorhttp(
    both: tuple[Ask, Ask], request_: tuple[str, str, bytes | None, dict[str, str]]
) -> None:
    """Status, reason, fields and body; for GET also those of HEAD."""
    method, path, body, fields = request_
    under_apache, under_poorhttp = (ask(method, path, body, **fields) for ask in both)
    assert under_apache == under_poorhttp
    if method == "GET":
        under_apache, under_poorhttp = (ask("HEAD", path, **fields) for ask in both)
        # Apache leaves out a length of 0, as RFC 9110 section 8.6 allows.
        assert [field for field in under_poorhttp[2] if field != ("content-length", "0")] == under_apache[2]
        assert under_apache[:2] == under_poorhttp[:2]


def test_the_example_is_the_same(serve: Callable[..., Server]) -> None:
    examples = Path(package_home()) / "examples"
    apache = Apache(examples)
    try:
        apache.start()
        ours = asker(serve(str(apache.application), ini=INI.format(directory=apache.directory)).address[1])
        for path in ("/light", "/", "/missing"):
            assert asker(apache.port)("GET", path) == ours("GET", path)
        assert asker(apache.port)("GET", "/heavy")[:2] == (200, "OK")
        assert "Initialisation ..." in apache.log()
    finally:
        apache.stop()


@pytest.mark.parametrize("path", ["/cut", "/short"])
def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole(apache: Apache, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", apache.port, timeout=20)
    connection.request("GET", path)
    with pytest.raises(http.client.IncompleteRead) as error:
        connection.getresponse().read()
    assert error.value.partial == b"first"
    connection.close()
    word = "in the middle" if path == "/cut" else "lacks 95 bytes"
    wait_for(lambda: word in apache.log(), "a line in the log")


def test_a_chunked_body_is_refused(apache: Apache) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", apache.port, timeout=20)
    connection.request("POST", "/form", iter([b"a=1"]), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status == 411
    connection.close()


def test_a_client_that_leaves_is_no_error(apache: Apache) -> None:
    """Its traceback would say nothing to anybody; the next request is served."""
    with socket.create_connection(("127.0.0.1", apache.port), 20) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        client.recv(10)
    assert asker(apache.port)("GET", "/nothing")[0] == 200
    assert "client closed" not in apache.log()
