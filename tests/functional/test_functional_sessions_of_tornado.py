"""The comparison of session engines in small, with all that it starts: nginx, four processes, a store, and the loads."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import front, sessions_tornado
from bench.client import Failure
from bench.launch import Setting
from bench.sessions_tornado import ENGINES, Size
from bench.sessions_tornado_report import CASES

PACKAGES = {"ab": "apache2-utils", "wrk": "wrk", "nginx": "nginx"}
MISSING = [name for name in PACKAGES if not shutil.which(name, path=f"{front.PLACES}:/bin")]
TINY = Size(requests=60, clients=6, fewer_requests=30, fewer_clients=3, seconds=1.0)

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: apt-get install {' '.join(PACKAGES[name] for name in MISSING)}"
)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """On whatever cores there are."""
    return Setting(work=tmp_path, cores=frozenset(psutil.Process().cpu_affinity()))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["none", "file", "directory"])
def test_an_engine_is_measured(name: str, case: str, setting: Setting) -> None:
    before = set(psutil.Process().children(recursive=True))
    numbers = sessions_tornado.measure(ENGINES[name], case, setting, TINY)
    assert numbers["rate"] > 0 and numbers["cpu"] > 0 and numbers["front"] > 0 and 0 < numbers["p50"] <= numbers["p99"]
    if name == "none":
        assert "made" not in numbers
    else:
        asked = 30 if name == "file" else 60
        assert numbers["made"] == (asked if case in ("new", "grown") else 0)
        assert numbers["older"] > asked * (5 if case == "grown" else 1)
    assert set(psutil.Process().children(recursive=True)) <= before


def test_a_server_that_dies_under_load_is_a_failure(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def after(site: sessions_tornado.Site, number: int) -> list[str]:
        site.processes[0].process.kill()
        site.processes[0].process.wait(10)
        return visitors(site, number)

    visitors = sessions_tornado.visitors
    monkeypatch.setattr(sessions_tornado, "visitors", after)
    with pytest.raises(Failure, match="Connection refused"):
        sessions_tornado.measure(ENGINES["directory"], "new", setting, TINY)
