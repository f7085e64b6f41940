"""Libraries that are loaded, and made immortal, before the fork do their work in the workers as elsewhere.

Each module in `libraries/` is a part of the work of one library. What it answers in workers is what it answers in a process
without a server. REQUESTS=10000 asks more often. That the memory of a worker does not grow is looked at with half of the
requests made, and at the end.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from starter import PATIENCE, Server, Start, wait_for
from test_immortal import IS_KNOWN

if not IS_KNOWN:
    pytest.skip("no object is immortal under this Python; CPython 3.12 and 3.13 know it", allow_module_level=True)

HERE = Path(__file__).parent / "libraries"
LIBRARIES = sorted(path.stem.removesuffix("_work") for path in HERE.glob("*_work.py"))
MODULES = {"pillow": "PIL"}
NUMBERS = 20
REQUESTS = int(os.environ.get("REQUESTS", "200"))

APP = """
import json
import sys

sys.path.insert(0, {place!r})
from {library}_work import work


def application(environ, start_response):
    if environ["PATH_INFO"] == "/immortal":
        body = json.dumps(sys.getrefcount(work) > 1 << 30)
    else:
        body = json.dumps(work(int(environ["QUERY_STRING"])))
    start_response("200 OK", [("Content-Type", "application/json")])
    return [body.encode()]
"""
PLAIN = "import app, json; print(json.dumps([app.work(number) for number in range({count})]))"


def ask(server: Server, count: int, expected: list[object], wrong: list[object]) -> None:
    """Make so many requests on one connection, and note answers that are wrong."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    for number in range(count):
        connection.request("GET", f"/?{number % NUMBERS}")
        answer = connection.getresponse()
        body = answer.read().decode()
        if answer.status != 200 or json.loads(body) != expected[number % NUMBERS]:
            wrong.append((number, answer.status, body))
    connection.close()


def ask_at_once(server: Server, count: int, expected: list[object]) -> None:
    wrong: list[object] = []
    threads = [threading.Thread(target=ask, args=(server, count // 2, expected, wrong)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def private(pid: int) -> int:
    """Bytes that a process has for itself."""
    shown: int = psutil.Process(pid).memory_full_info().uss
    return shown


@pytest.mark.timeout(120 + REQUESTS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_works_in_immortal_workers(start: Start, tmp_path: Path, library: str) -> None:
    if find_spec(MODULES.get(library, library)) is None:
        pytest.skip(f"{library} is not there")
    source = APP.format(place=str(HERE), library=library)
    (tmp_path / "app.py").write_text(source)
    plain = [sys.executable, "-c", PLAIN.format(count=NUMBERS)]
    expected = json.loads(subprocess.run(plain, cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE).stdout)
    server = start("2x1", source=source)
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    before = server.workers()
    assert server.get("/immortal") == (200, "true")
    ask_at_once(server, REQUESTS // 2, expected)
    half = max(map(private, before))
    ask_at_once(server, REQUESTS // 2, expected)
    assert server.workers() == before, "no worker has died"
    # Both connections may be with one worker; the other one has made its caches later.
    assert max(map(private, before)) < half * 1.2 + (1 << 20)
    assert server.stop() == 0
    assert "[E]" not in server.said
