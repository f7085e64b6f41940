"""docs/monitoring.md, as it stands there, with the real `prometheus_client` in its multiprocess mode."""

import os
import re
import signal
from pathlib import Path

import pytest
from starter import ROOT, Server, Start, wait_for

pytest.importorskip("prometheus_client", reason="needs prometheus_client: pip install prometheus-client")


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "monitoring.md").read_text(), re.DOTALL)
    return str(text)


def metric(server: Server, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", server.get("/metrics")[1], re.MULTILINE)
    assert found, name
    return float(found[1])


def test_gauges_tell_of_the_workers_that_live_and_no_trial_leaves_a_file(launch: Start, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    (tmp_path / "poorhttp.ini").write_text(block("ini").replace("/run/poorhttp/metrics", str(metrics)))
    # Each worker is a request for as long as it lives: a page that does not count itself out.
    page = "    if environ['PATH_INFO'] == '/in':\n        IN_PROGRESS.inc()\n    with IN_PROGRESS"
    (tmp_path / "app.py").write_text(block("python").replace("    with IN_PROGRESS", page))
    words = ("-c", "poorhttp.ini", "--port=0", "--processes=2", "--log-level=debug", "--check-path=/")
    server = launch(*words, PYTHONWARNINGS="default")
    server.await_address()
    server.await_serving(2)
    asked = 0.0

    def ask() -> None:
        nonlocal asked
        status, body = server.get("/in")
        assert (status, body) == (200, "hello")
        asked += 1

    for times in 1, 2:
        ask()
        assert metric(server, "in_progress") == 1, "one, from a worker that lives"
        holder = next(pid for pid in server.states() if (metrics / f"gauge_livesum_{pid}.db").exists())
        os.kill(holder, signal.SIGKILL)
        wait_for(lambda: metric(server, "in_progress") == 0, "the gauge of who was killed to be gone")
        server.await_serving(2)
        ask()
        old = server.workers()
        server.send(signal.SIGHUP)
        wait_for(lambda times=times: server.said.count("reloaded: ") == times, "the reload")  # type: ignore[misc]
        wait_for(lambda old=old: not server.workers() & old, "the old workers to leave")  # type: ignore[misc]
        wait_for(lambda: metric(server, "in_progress") == 0, "the gauges of the old workers to be gone")
        server.await_serving(2)
    assert metric(server, "requests_total") == asked, "counters of who has ended stay, and no question counts"
    workers = {server.process.pid, *map(int, re.findall(r"worker (\d+) started", server.said))}
    owners = {int(each.stem.rpartition("_")[2]) for each in metrics.iterdir()}
    assert owners <= workers, "files of processes that never served"
    gauges = {int(each.stem.rpartition("_")[2]) for each in metrics.glob("gauge_livesum_*")}
    assert gauges <= {server.process.pid, *server.states()}
    assert server.stop() == 0
    assert {each.name for each in metrics.glob("gauge_livesum_*")} == {f"gauge_livesum_{server.process.pid}.db"}
    assert "[E]" not in re.sub(r"\[E\] worker \d+ died: killed by SIGKILL", "", server.said)
