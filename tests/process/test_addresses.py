"""Clients with addresses of their own: in a network namespace that the test makes, so that they are not loopback's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starter import PATIENCE, ROOT, SHAPES

HELLO = """
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""

NAMESPACE = ("unshare", "--net", "--pid", "--fork", "--kill-child")

BEGIN = '''
"""Starts the server and comes to it from several addresses; prints what it was answered."""
import json, os, re, socket, subprocess, sys, time

SERVER, OTHER = "192.0.2.1", "192.0.2.2"  # RFC 5737
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in (SERVER, OTHER):
    subprocess.run(["ip", "address", "add", address + "/32", "dev", "lo"], check=True)
command = [sys.executable, "-m", "poorhttp", "app.py", "--bind", SERVER + ":0", "--bind", "127.0.0.1:0"]
server = subprocess.Popen([*command, *sys.argv[1:]], stderr=subprocess.PIPE, text=True)
ports = {}
while len(ports) < 2:
    line = server.stderr.readline()
    assert line, "the server ended"
    ports.update(re.findall(r"http://([0-9.]+):([0-9]+)/", line))


def connect(source, server=SERVER):
    return socket.create_connection((server, int(ports[server])), 10, (source, 0))
'''

CROWD = '''
def ask(client):
    """The status; 0 where the connection ends without one."""
    try:
        client.sendall(b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
        return int(client.recv(65536).split()[1])
    except (IndexError, OSError):
        return 0


def turned_away(client):
    """All that comes, without a word from here."""
    answer = b""
    while data := client.recv(65536):
        answer += data
    return answer.decode()


inside = [connect(SERVER) for _ in range(3)]
seen = {"inside": [ask(client) for client in inside]}
seen["outside"] = [turned_away(connect(SERVER)) for _ in range(3)]
seen["other"] = ask(connect(OTHER))
seen["loopback"] = [ask(client) for client in [connect("127.0.0.1", "127.0.0.1") for _ in range(5)]]
seen["still inside"] = [ask(client) for client in inside]
inside.pop().close()
end = time.monotonic() + 10
while True:
    after = connect(SERVER)
    seen["after"] = ask(after)
    if seen["after"] == 200 or time.monotonic() > end:
        break
'''

STATUS = '''
def ask(client):
    """The kind of the answer, and its body."""
    client.sendall(b"GET /status HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    answer = client.makefile("rb").read().decode()
    return re.findall("Content-Type: (.*)\\r", answer), answer.partition("\\r\\n\\r\\n")[2]


seen = {}
seen["own"], seen["other"] = ask(connect(SERVER)), ask(connect(OTHER))
seen["loopback"] = ask(connect("127.0.0.1", "127.0.0.1"))
'''

END = """
server.terminate()
seen["log"] = server.communicate(timeout=10)[1]
seen["code"] = server.returncode
print(json.dumps(seen))
"""


def run(directory: Path, script: str, *arguments: str) -> dict[str, Any]:
    """What that script has seen of a server with these arguments, in a network namespace."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    if not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("ip or unshare is not installed: apt-get install iproute2 util-linux")
    (directory / "app.py").write_text(HELLO)
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-c", BEGIN + script + END, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert seen["code"] == 0
    return seen


@pytest.mark.timeout(60)
def test_one_client_does_not_take_all_places(tmp_path: Path) -> None:
    """Beyond max_connections_per_address: 503, a word in the log, and everybody else is served as before."""
    seen = run(tmp_path, CROWD, "--max-connections-per-address=3")
    assert seen["inside"] == seen["still inside"] == [200] * 3
    for answer in seen["outside"]:
        assert answer.startswith("HTTP/1.1 503 Service Unavailable\r\n") and "\r\nConnection: close\r\n" in answer
    assert seen["other"] == 200 and seen["loopback"] == [200] * 5
    assert seen["after"] == 200
    lines = [line for line in seen["log"].splitlines() if "max_connections_per_address" in line]
    assert len(lines) == 1 and "[192.0.2.1]" in lines[0], seen["log"]


@pytest.mark.timeout(60)
def test_the_status_page_is_not_for_whoever_comes_from_elsewhere(tmp_path: Path, shape: str) -> None:
    """To him it is a path of the application; where his address is trusted he may see it."""
    for trusted in (), ("--trusted-proxies=192.0.2.2",):
        seen = run(tmp_path, STATUS, "--status-path=/status", *SHAPES[shape], *trusted)
        assert seen["own"] == [[], ""]
        kinds, body = seen["other"]
        assert (kinds, "pid" in body) == ((["application/json"], True) if trusted else ([], False))
        assert seen["loopback"][0] == ["application/json"]
