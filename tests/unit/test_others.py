"""Options of other servers: they exist there, a user who writes one is told what it is here, and the page of the manual."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from poorhttp.config import other_servers, reading
from poorhttp.config.commands import ALIASES, COMMANDS, SHORT
from poorhttp.config.flags import parse_flags
from poorhttp.config.settings import SETTINGS
from poorhttp.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
FROM, TO = "<!-- options -->\n", "<!-- /options -->"

ROWS = [
    (server, option, ours)
    for server, table in {**other_servers.SERVERS, "more": other_servers.MORE}.items()
    for options, ours in table.items()
    for option in options.split(", ")
]


OF_PLUGINS = {"--asyncio", "--greenlet", "--https"}
"""Options of uWSGI that not each build of it has."""

OTHERS = {"proxy_pass", "register_at_fork"}
"""Words with an underscore that are not settings: of nginx and of Python."""


def said(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        reading.read(parse_flags(argv, "/"), {}, "/")
    return caught.value.hint


def told(tmp_path: Path, name: str, text: str) -> ConfigError:
    """The error for an ini file."""
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as caught:
        reading.read(parse_flags(["-c", name], str(tmp_path)), {}, str(tmp_path))
    return caught.value


def tables_of_today() -> Iterator[str]:
    """The tables of docs/coming-from.md (Markdown)."""
    for server, table in other_servers.SERVERS.items():
        lines = [f"## From {server}", "", f"| {server} | poorhttp |", "|---|---|"]
        for options, ours in table.items():
            names = ", ".join(f"`{each}`" for each in options.split(", "))
            lines.append(f"| {names} | {f'`{ours}`' if ours in SETTINGS else ours.replace('|', '&#124;')} |")
        yield "\n".join(lines)


@pytest.mark.parametrize(("server", "option", "ours"), ROWS)
def test_each_answer_is_a_setting_or_a_sentence(server: str, option: str, ours: str) -> None:
    assert ours in SETTINGS or (" " in ours and ours[-1] not in ".?!")
    assert re.fullmatch(r"--?[\w-]+|\[[a-z:]+\]|[a-z]\w+", option)


@pytest.mark.parametrize(("server", "option", "ours"), ROWS)
def test_settings_that_a_sentence_names_exist(server: str, option: str, ours: str) -> None:
    """Words with an underscore, and flags that are not those of the other server."""
    assert {word for word in re.findall(r"\b[a-z]+_[a-z_]+\b", ours) if word not in OTHERS} <= set(SETTINGS)
    names = {flag[2:].partition("=")[0].replace("-", "_") for flag in re.findall(r"(?<!\S)--[a-z-]+", ours)}
    assert names <= {*SETTINGS, *COMMANDS, *ALIASES}


@pytest.mark.parametrize(("server", "option", "ours"), ROWS)
def test_a_user_who_writes_such_an_option_is_told(server: str, option: str, ours: str) -> None:
    """Or it is ours, with the same meaning, else the page says what it is here."""
    name = SHORT.get(option[1], "") if len(option) == 2 and option[0] == "-" else option.lstrip("-").replace("-", "_")
    name = ALIASES.get(name, name)
    if name in SETTINGS:
        assert ours == name or f"{option} is {name} here" in ours
    elif name in COMMANDS or name == "config":
        assert option in ours or "-c FILE" in ours or f"{option} is {name} here" in ours
    elif option[0] == "-":
        hint = said(option)
        assert (f"--{ours.replace('_', '-')}" if ours in SETTINGS else ours) in hint
    elif option[0] != "[":
        with pytest.raises(ConfigError) as caught:
            reading.from_keywords({option: "x"}, {}, "/")
        assert ours in caught.value.hint


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        ("--workers 4", "did you mean --processes?"),
        ("--workers=4", "did you mean --processes?"),
        ("--ssl-cert x", other_servers.TLS),
        ("--certfile x", other_servers.TLS),
        ("--worker-class gevent", other_servers.GREENLETS),
        ("-k gevent", other_servers.GREENLETS),
        ("--master", "type = forking has a supervisor"),
        ("--http :80", "did you mean --bind?"),
        ("--wsgi-file app.py", "give the file as APP: poorhttp file.py"),
        ("--timeout 5", "did you mean --request-timeout?"),
        ("-t5", "did you mean --request-timeout?"),
        ("--listen :80", "uWSGI's --listen: --backlog; waitress's --listen: --bind"),
        ("--type gevent", other_servers.GREENLETS),
        ("--type sync", "set type to single or forking"),
        ("--type gthread", "did you mean threading?"),
        ("-w4", "gunicorn's -w: --processes; uWSGI's -w: give the module as APP: poorhttp module"),
    ],
)
def test_what_is_said(argv: str, hint: str) -> None:
    assert said(*argv.split()) == hint


def test_a_key_and_a_keyword_are_answered_as_they_are_written(tmp_path: Path) -> None:
    for text, hint in (
        ("[http]\nworkers = 4\n", "did you mean processes?"),
        ("[uwsgi]\n", "into the section [http]"),
        ("[app:main]\nuse = egg:site\n", other_servers.PASTE),
    ):
        assert hint in told(tmp_path, "my.ini", text).hint
    with pytest.raises(ConfigError, match=r"did you mean request_timeout\?"):
        reading.from_keywords({"timeout": 5}, {}, "/")


def test_an_ini_file_of_uwsgi_is_explained(tmp_path: Path) -> None:
    text = "[uwsgi]\nmodule = app:app\n# processes = 9\nprocesses=4\nharakiri = 30\nprocesses = 5\nmy-own = 1\nmaster\n"
    error = told(tmp_path, "my.ini", text)
    assert error.message == "my.ini:1: unknown section: '[uwsgi]'"
    assert error.detail.splitlines() == [
        "module: give the module as APP: poorhttp module",
        "processes: set processes",
        "harakiri: set request_timeout",
    ]


def test_a_configuration_of_gunicorn_is_explained(tmp_path: Path) -> None:
    text = 'import os\nworkers = 4\nbind="[::1]:80"\nloglevel = os.environ["X"]\n\ndef post_fork(server, worker):\n    x = 1\n'
    error = told(tmp_path, "gunicorn.conf.py", text)
    assert error.message.startswith("gunicorn.conf.py is a file of Python, ")
    assert error.detail.splitlines() == [
        "workers: set processes",
        "bind: set bind",
        "loglevel: set log_level",
        f"post_fork: {other_servers.FORKED}",
    ]


def test_a_file_that_is_explained_may_hold_anything(tmp_path: Path) -> None:
    assert told(tmp_path, "my.ini", "[uwsgi]\n=\n-\n==\n\u2028=1\n--\n").detail == ""
    assert other_servers.explained("workers = 1\n" * 100_000 + "=" * 100_000, "gunicorn") == "workers: set processes"


def test_a_server_that_starts_does_not_import_the_tables() -> None:
    code = (
        "import sys, poorhttp.cli; from poorhttp.config import reading; from poorhttp.config.flags import parse_flags;"
    )
    code += "reading.read(parse_flags(['--type=forking', 'app'], '/'), {}, '/');"
    code += "sys.exit('poorhttp.config.other_servers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=30, check=False).returncode == 0


# ---------------------------------------------------------------------------------------- What the servers have


def rows_of(table: dict[str, str]) -> set[str]:
    return {option for options in table for option in options.split(", ")}


def test_gunicorn_has_each_option_and_the_table_each_of_gunicorn() -> None:
    config = pytest.importorskip("gunicorn.config", reason="gunicorn is not installed: pip install -e '.[test]'")
    known = {setting.name: setting.cli or [] for setting in config.KNOWN_SETTINGS}
    named = rows_of(other_servers.GUNICORN)
    assert named <= {*known, *(flag for flags in known.values() for flag in flags)}
    # A setting is found by its name as a key, or the flag is that name.
    left_out = {name for name in known if name not in named and f"--{name.replace('_', '-')}" not in named}
    assert left_out - {"limit_request_field_size"} == set(), "give each a row: a setting, or why there is none"
    assert {flag for flags in known.values() for flag in flags} <= named


def test_waitress_has_each_option_and_the_table_each_of_waitress() -> None:
    adjustments = pytest.importorskip(
        "waitress.adjustments", reason="waitress is not installed: pip install -e '.[test]'"
    )
    known = {name.replace("_", "-") for name, _ in adjustments.Adjustments._params}
    of_the_command = {"--app", "--call", "--help"}
    named = {option.lstrip("-") for option in rows_of(other_servers.WAITRESS) - of_the_command}
    assert named == known


def test_uwsgi_has_each_option() -> None:
    program = shutil.which("uwsgi", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("uWSGI is not installed: pip install -e '.[test]'")
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=30, check=False)
    known = {
        flag for line in done.stdout.splitlines() if line.lstrip()[:1] == "-" for flag in line.split()[0].split("|")
    }
    assert len(known) > 500
    assert rows_of(other_servers.UWSGI) - known - OF_PLUGINS == {"[uwsgi]"}


def test_the_examples_of_the_page_are_understood() -> None:
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("    poorhttp --type ")]
    assert len(lines) == 3
    for line in lines:
        settings = reading.read(parse_flags(shlex.split(line)[1:], "/"), {}, "/")
        assert str(settings.addresses[0]) == "127.0.0.1:8000"


def test_the_page_holds_the_tables() -> None:
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    assert text.count(FROM) == text.count(TO) == 1
    tables = text.partition(FROM)[2].partition(TO)[0].strip()
    now = "\n\n".join(tables_of_today())
    assert tables == now, f"the tables of today:\n{now}"
