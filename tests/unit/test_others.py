"""Options of other servers: what is said to whoever writes one, and the page of the manual."""

import shlex
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


def said(*argv: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_flags(argv, "/")
    return caught.value.hint


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
    assert option[0] in "-[" and option == option.strip()


@pytest.mark.parametrize(("server", "option", "ours"), ROWS)
def test_a_user_who_writes_such_an_option_is_told(server: str, option: str, ours: str) -> None:
    """Or it is ours, with the same meaning, else the page says what it is here."""
    name = SHORT.get(option[1], "") if len(option) == 2 else option[2:].replace("-", "_")
    name = ALIASES.get(name, name)
    if name in SETTINGS:
        assert ours == name or f"{option} is {name} here" in ours
    elif option[0] == "-":
        assert name not in COMMANDS
        hint = said(option)
        assert (f"--{ours.replace('_', '-')}" if ours in SETTINGS else ours) in hint


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
        ("-w4", "gunicorn's -w: --processes; uWSGI's -w: give the module as APP: poorhttp module"),
    ],
)
def test_what_is_said(argv: str, hint: str) -> None:
    assert said(*argv.split()) == hint


def test_a_key_and_a_keyword_are_answered_as_they_are_written(tmp_path: Path) -> None:
    for text, hint in ("[http]\nworkers = 4\n", "did you mean processes?"), ("[uwsgi]\n", "into the section [http]"):
        (tmp_path / "my.ini").write_text(text)
        with pytest.raises(ConfigError) as caught:
            reading.read(parse_flags(["-c", "my.ini"], str(tmp_path)), {}, str(tmp_path))
        assert hint in caught.value.hint
    with pytest.raises(ConfigError, match=r"did you mean request_timeout\?"):
        reading.from_keywords({"timeout": 5}, {}, "/")


def test_the_examples_of_the_page_are_understood() -> None:
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("    poorhttp ")]
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
