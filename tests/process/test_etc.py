"""The other files of examples/etc: logrotate rotates the logs of all services, and AppArmor understands the profile."""

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from service_unit import Unit, service
from starter import ROOT, wait_for

ETC = ROOT / "examples" / "etc"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    found = shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin")
    return pytest.mark.skipif(found is None, reason=f"{program} is not installed: apt-get install {package}")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environ)


@pytest.fixture
def unit() -> Iterator[Unit]:
    with service("etc/systemd/system/poorhttp@.service", "etc/poorhttp/mysite.ini", "mysite") as unit:
        yield unit


@needs("logrotate", "logrotate")
def test_logrotate_finds_nothing_wrong() -> None:
    done = run("logrotate", "--debug", "--state", "/dev/null", str(ETC / "logrotate.d/poorhttp"))
    assert done.returncode == 0
    assert not [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error:")]


@needs("logrotate", "logrotate")
def test_the_logs_are_rotated_and_the_server_goes_on_with_new_ones(unit: Unit) -> None:
    unit.write("page")
    unit.start()
    assert unit.page().startswith("page ")
    log = unit.logs / "access.log"
    wait_for(lambda: log.exists() and log.read_text().count("\n") == 1, "the first line")
    (unit.root / "etc/poorhttp/stopped.ini").write_text(f"[http]\npidfile = {unit.root}/run/none.pid\n")
    configuration = unit.root / "etc/logrotate.d"
    text = unit.mapped("etc/logrotate.d/poorhttp")
    if unit.user is None:  # only root becomes another user
        text = re.sub(r"(?m)^ *su .*\n", "", text)
    configuration.write_text(text)
    configuration.chmod(0o644)
    done = run("logrotate", "--force", "--state", str(unit.root / "state"), str(configuration))
    assert done.returncode == 0, done.stderr
    wait_for(log.exists, "the new log")
    assert unit.page().startswith("page ")
    wait_for(lambda: log.read_text().count("\n") == 1, "a line in the new log")
    assert (unit.logs / "access.log.1").read_text().count("\n") == 1


@needs("apparmor_parser", "apparmor")
def test_apparmor_understands_the_profile() -> None:
    path = str(ETC / "apparmor.d/poorhttp")
    done = run("apparmor_parser", "--skip-kernel-load", "--skip-cache", path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "poorhttp" not in done.stderr
    assert run("apparmor_parser", "--names", path).stdout == "poorhttp\n"
