"""The units in examples/ do what they say, and systemd understands them."""

import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest
from service_unit import Unit, complaints, service
from starter import PATIENCE, ROOT, wait_for

MISSING = "systemd is not installed: apt-get install systemd"
SERVICES = {
    "one": ("poorhttp.service", "service.ini"),
    "one of several": ("etc/systemd/system/poorhttp@.service", "etc/poorhttp/mysite.ini", "mysite"),
}


@pytest.fixture(params=SERVICES.values(), ids=SERVICES)
def unit(request: pytest.FixtureRequest) -> Iterator[Unit]:
    with service(*request.param) as unit:
        yield unit


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
    log = unit.logs / "access.log"
    wait_for(lambda: log.read_text().count("GET / HTTP/1.1") == 3, "three lines in the access log")
    unit.process.send_signal(signal.SIGTERM)
    assert unit.process.wait(PATIENCE) == 0
    assert list(unit.run.iterdir()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason=MISSING)
def test_the_units_are_understood(unit: Unit) -> None:
    if unit.instance:
        assert complaints(unit, "etc/systemd/system/poorhttp@.service") == []
    else:
        assert complaints(unit, "poorhttp.service", "poorhttp.socket") == []


def test_the_template_has_the_lines_of_the_service() -> None:
    """From [Service] on they are the same, but for the paths of an instance."""
    one, several = ((ROOT / "examples" / name[0]).read_text() for name in SERVICES.values())
    expected = one.partition("[Service]")[2]
    for before, after in (
        ("/opt/mysite", "/opt/%i"),
        ("/etc/poorhttp.ini", "/etc/poorhttp/%i.ini"),
        ("Directory=poorhttp", "Directory=poorhttp/%i"),
        ("/run/poorhttp and /var/log/poorhttp,", "/run/poorhttp/%i and /var/log/poorhttp/%i,"),
    ):
        expected = expected.replace(before, after)
    assert several.partition("[Service]")[2] == expected
