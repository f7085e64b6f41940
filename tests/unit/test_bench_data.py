"""The bench's servers and workloads as data: what the files say, and what is told of a file that is wrong."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import ini, launch, servers, workloads
from bench.__main__ import with_before
from bench.servers import GROUPS, OURS, RELOADING, SERVERS, members
from bench.workloads import COST, FRONT, MEMORY, START, STARTING, WORKLOADS

SERVER = "[groups]\nfast = the fastest\n[one]\ncommand = {python} -m one {port}\npackages = one\nnote = none\n"
WORKLOAD = "[page]\nwhat = a page\nservers = single, computing\n"


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (SERVER.replace("note =", "notes ="), "[one], notes", "no such key; expected one of command, packages"),
        (SERVER.replace("note = none\n", ""), "[one], note", "missing; expected command, note in each section"),
        (SERVER.replace("none", ""), "[one], note", "missing"),
        (SERVER + "version = one -v", "[one], version", "expected this key or `packages`, and not both"),
        (SERVER.replace("packages = one\n", ""), "[one], version", "expected this key or `packages`, and not both"),
        (SERVER.replace("{port}", "{prot}"), "[one], command", "{prot} to be one of {bare}, {body}"),
        (SERVER.replace("one {port}", "'one"), "[one], command", "quoted as for a shell"),
        (SERVER.replace("one {port}", "{port"), "[one], command", "with names in braces"),
        (SERVER + "groups = fats", "[one], groups", "groups of the section [groups], fast, but not fats"),
        (SERVER + "groups = fast,,", "[one], groups", "names with commas between them"),
        (SERVER + "unix = {port}", "[one], unix", "a part of the command -> what names {socket}"),
        (SERVER + "unix = port= -> {socket}", "[one], unix", "'port=' is not in the command"),
        (SERVER + "unix = ${two:unix}", "", "two"),
        (SERVER + "[one]\n", "", "section 'one' already exists"),
        (SERVER + "note = again\n", "", "option 'note' in section 'one' already exists"),
        ("one = two", "", "no section headers"),
    ],
)
def test_a_wrong_file_of_servers_is_told_by_section_and_key(text: str, where: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "servers.ini"
    path.write_text(text)
    with pytest.raises(ini.BadFile) as caught:
        servers.read(path)
    assert str(path) in str(caught.value) and where in str(caught.value) and what in str(caught.value)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (WORKLOAD.replace("single", "singel"), "[page], servers", "servers and groups of servers.ini, but not singel"),
        (WORKLOAD.replace("servers = single, computing\n", ""), "[page], servers", "missing"),
        (WORKLOAD + "threads = many", "[page], threads", "'many'; expected a whole number"),
        (WORKLOAD + "close = true", "[page], close", "'true'; expected yes or no"),
        (WORKLOAD + "thread = 1", "[page], thread", "no such key"),
        (WORKLOAD + "name = other", "[page], name", "no such key"),
    ],
)
def test_a_wrong_file_of_workloads_is_told_by_section_and_key(text: str, where: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "workloads.ini"
    path.write_text(text)
    with pytest.raises(ini.BadFile) as caught:
        workloads.read(path)
    assert str(path) in str(caught.value) and where in str(caught.value) and what in str(caught.value)


def test_a_server_is_added_by_a_section(tmp_path: Path) -> None:
    path = tmp_path / "servers.ini"
    path.write_text(SERVER + "groups = fast\nunix = {port} -> unix:{socket}\n")
    found, groups = servers.read(path)
    assert groups == {"fast": "the fastest"}
    one = found["one"]
    assert one.command == ("{python}", "-m", "one", "{port}") and one.unix == ("{port}", "unix:{socket}")
    assert one.version[:2] == ("{python}", "-c") and "version('one')" in one.version[2] and one.groups == ("fast",)


@pytest.mark.parametrize(
    ("unix", "command"),
    [
        ("a:{port} -> b:{socket}", ("one", "--bind=b:{socket}", "--port", "{port}")),
        ("--port {port} -> --unix {socket} -x", ("one", "--bind=a:{port}", "--unix", "{socket}", "-x")),
        ("--port -> --unix {socket}", ("one", "--bind=a:{port}", "--unix {socket}", "{port}")),
    ],
)
def test_a_part_of_a_word_or_whole_words_give_way_to_the_socket(unix: str, command: tuple[str, ...]) -> None:
    server = servers.Server("one", ("one", "--bind=a:{port}", "--port", "{port}"), (), "", servers.replacement(unix))
    assert server.at_socket() == command


def test_a_workload_is_added_by_a_section(tmp_path: Path) -> None:
    path = tmp_path / "workloads.ini"
    path.write_text(WORKLOAD + "answer = x * 3\nclose = yes\nthreads = 2\nneeds = one, two\n")
    page = workloads.read(path)["page"]
    assert page.servers[0] == "single" and set(page.servers) == {"single", *members("computing")}
    assert (page.answer, page.close, page.threads, page.needs) == (b"xxx", True, 2, ("one", "two"))
    assert workloads.answer("of the application") is None and workloads.answer("x * y") == b"x * y"


def test_targets_name_rows_that_are_measured() -> None:
    measured = {(each.name, server) for each in WORKLOADS.values() for server in with_before(each.servers)}
    assert {row for target in COST for row in (target.row, *target.over)} <= measured
    measured = {(f"{name}, {over}", server) for name in WORKLOADS for over in (workloads.TCP, workloads.UNIX)
                for server in members("fronted")}  # fmt: skip
    assert {row for target in FRONT for row in (target.row, *target.over)} <= measured
    measured = {("hello", server) for server in members("memory")} | {("idle", server) for server in members("idle")}
    measured |= {("start", server) for server in START.servers} | {("installed", "poorhttp")}
    assert {row for target in (*MEMORY, *STARTING) for row in (target.row, *target.over)} <= measured


def test_each_group_has_members_and_is_asked_for() -> None:
    code = "".join(path.read_text() for path in launch.HERE.glob("*.py")) + workloads.FILE.read_text()
    for group in GROUPS:
        assert members(group), group
        assert re.search(rf'members\("{group}"\)|^servers = .*\b{group}\b', code, re.MULTILINE), group


def test_no_peer_keeps_a_limit_that_others_had_raised() -> None:
    """Of those whose default is below the 10,000 connections of `sweep` and of `idle`."""
    limited = ("granian", "waitress", "cheroot", "gthread", "gevent", "peregrine", "weft", "cherrypy")
    assert [name for name in limited if "16384" not in " ".join(SERVERS[name].command)] == []


def test_peers_that_can_start_several_processes_are_told_how_many() -> None:
    able = ("fastwsgi", "granian", "gunicorn", "gthread", "gevent", "peregrine", "freastal", "fastpysgi", "weft",
            "m0serve", "socketify", "mod-wsgi", "uwsgi", "uwsgi-http")  # fmt: skip
    assert [name for name in able if "{processes}" not in " ".join(SERVERS[name].command)] == []


def test_our_servers_are_those_that_the_program_poorhttp_runs() -> None:
    assert OURS == ("single", "threading", "forking")


def test_each_peer_is_pinned_in_the_list_that_is_installed() -> None:
    lines = [line for path in launch.HERE.glob("peers*.txt") for line in path.read_text().splitlines()]
    pinned = {line.partition("==")[0] for line in lines if "==" in line}
    asked = {name for server in (*SERVERS.values(), *RELOADING.values()) for name in server.packages}
    assert asked | {name for each in WORKLOADS.values() for name in each.needs} <= pinned


@pytest.mark.parametrize("server", SERVERS.values(), ids=lambda server: server.name)
def test_command_lines_are_complete(server: launch.Server, tmp_path: Path) -> None:
    setting = launch.Setting(work=tmp_path)
    command = launch.fill(server, WORKLOADS["hello"], setting, 8080)
    assert not any("{" in part for part in command) and any("8080" in part for part in command)
    if server.unix is not None:
        assert any("/a.sock" in part for part in launch.fill(server, WORKLOADS["hello"], setting, "/a.sock"))


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_applications_of_workloads_are_there(workload: workloads.Workload) -> None:
    assert (launch.APPS / f"{workload.module}.py").exists()
    assert not workload.directory or (launch.ROOT / workload.directory).is_dir()
