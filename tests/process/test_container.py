"""examples/container: the image is built from files that are there, and its command is a good first process.

There is no Docker in these tests: a parser reads the Dockerfile, and the command of the image is the first process of a
namespace, as in a container, with the settings of the image.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starter import NAMESPACE, PATIENCE, ROOT, contains, wait_for

CONTAINER = ROOT / "examples" / "container"


@pytest.fixture(scope="module")
def image() -> dict[str, str]:
    """The last value of each instruction of the last stage."""
    parser = pytest.importorskip("dockerfile_parse", reason="to be installed: pip install -e '.[test]'")
    with (CONTAINER / "Dockerfile").open("rb") as file:
        steps = parser.DockerfileParser(fileobj=file).structure
    last = max(number for number, step in enumerate(steps) if step["instruction"] == "FROM")
    return {step["instruction"]: step["value"] for step in steps[last:]}


def test_the_image_is_built_from_what_the_text_names(image: dict[str, str]) -> None:
    text = (CONTAINER / "Dockerfile").read_text()
    copied = {words[1] for words in map(str.split, text.splitlines()) if words[:1] == ["COPY"]}
    assert copied == {"poorhttp", "mysite/requirements.txt", "poorhttp.ini", "mysite"}
    # One Debian for both stages, since a wheel is for one Python and one C library.
    assert len(set(re.findall(r"^FROM \S+-(\w+)", text, re.MULTILINE))) == 1
    # The last user is not root, and no shell stands between the server and the signals.
    assert image["USER"] not in ("root", "0")
    assert json.loads(image["CMD"])[0] == "poorhttp" and "ENTRYPOINT" not in image
    assert json.loads(image["HEALTHCHECK"].partition("CMD ")[2])


class Container:
    """The command of the image as the first process, with the ini file of the image, a program, and a free port."""

    def __init__(self, directory: Path, image: dict[str, str]) -> None:
        (directory / "mysite").mkdir()
        (directory / "mysite/wsgi.py").write_text(
            "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'page']\n"
        )
        ini = directory / "poorhttp.ini"
        text = (CONTAINER / "poorhttp.ini").read_text()
        ini.write_text(text.replace("/opt/mysite", str(directory)).replace("bind = :8080", "bind = :0"))
        self.health: list[str] = json.loads(image["HEALTHCHECK"].partition("CMD ")[2])
        self.output, self.errors = directory / "output", directory / "errors"
        arguments = [word.replace("/etc/poorhttp.ini", str(ini)) for word in json.loads(image["CMD"])[1:]]
        command = [*NAMESPACE, sys.executable, "-m", "poorhttp", *arguments]
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd="/", env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )

    @property
    def port(self) -> str:
        found = re.search(r"http://[\d.]+:(\d+)", self.errors.read_text())
        return found[1] if found else ""

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            return str(answer.read().decode())


@pytest.fixture
def container(tmp_path: Path, image: dict[str, str]) -> Iterator[Container]:
    container = Container(tmp_path, image)
    try:
        wait_for(lambda: container.port, "the server in the container")
        yield container
    finally:
        container.process.kill()
        container.process.wait(PATIENCE)


@contains
def test_the_first_process_serves_tells_and_stops(container: Container) -> None:
    assert container.get("/page") == "page"
    health = [word.replace(":8080/", f":{container.port}/") for word in container.health]
    assert subprocess.run([sys.executable, *health[1:]], timeout=PATIENCE, check=False).returncode == 0
    wait_for(lambda: '"/page"' in container.output.read_text(), "the line of the request on standard output")
    lines = [json.loads(line) for line in container.output.read_text().splitlines()]
    assert [line["status"] for line in lines if line["target"] == "/page"] == [200]
    (first,) = psutil.Process(container.process.pid).children()
    first.send_signal(signal.SIGHUP)
    wait_for(lambda: "reloaded: " in container.errors.read_text(), "a reload by a signal to the first process")
    assert container.get("/page") == "page"
    first.send_signal(signal.SIGTERM)
    assert container.process.wait(PATIENCE) == 0


def test_a_stop_is_over_before_docker_kills() -> None:
    found = re.search(r"^graceful_timeout = (\d+)$", (CONTAINER / "poorhttp.ini").read_text(), re.MULTILINE)
    assert found and int(found[1]) < 10
