"""The declarations are sound, and the documents that follow from them are up to date."""

import subprocess
import sys
from pathlib import Path

import pytest

from poorhttp.config import printing, reading
from poorhttp.config.flags import Flags, parse_flags
from poorhttp.config.settings import LEVELS, OLD_KEYS, SETTINGS, UNUSED_KEYS

ROOT = Path(__file__).resolve().parents[2]
FROM, TO = "<!-- settings -->", "<!-- /settings -->"

LAZY = (
    *("argparse", "dataclasses", "configparser", "logging", "typing", "re", "pathlib", "tempfile", "subprocess"),
    *("inspect", "traceback", "html", "datetime", "json", "threading", "difflib", "importlib.util", "encodings.idna"),
)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_default_is_a_value_of_its_unit(setting):
    directory = "/dir"
    once = setting.unit.parse(setting.shown_default, directory)
    if setting.name != "application":
        assert once == setting.default
        assert type(once) is type(setting.default)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_help_is_one_short_line(setting):
    assert setting.help.isprintable()
    assert "|" not in setting.help
    assert len(setting.help) < 85


def test_short_flags_are_distinct():
    shorts = [each.short for each in SETTINGS.values() if each.short]
    assert sorted([*shorts, *"chv"]) == sorted({*shorts, *"chv"})


def test_names_by_rule():
    setting = SETTINGS["keepalive_timeout"]
    assert (setting.flag, setting.variable) == ("--keepalive-timeout", "POORHTTP_KEEPALIVE_TIMEOUT")


def test_old_names_lead_to_settings():
    assert set(OLD_KEYS.values()) <= set(SETTINGS)
    assert not set(UNUSED_KEYS["http"]) & set(SETTINGS)


def test_old_numbers_of_levels():
    unit = SETTINGS["log_level"].unit
    assert [unit.parse(str(number)) for number in range(9)] == [*LEVELS, "debug"]
    assert [unit.parse(name) for name in ("CRITICAL", "WARNING")] == ["crit", "warning"]


def test_committed_ini_is_the_dumped_one():
    text = printing.ini_text(parse_flags(["examples/tour"], str(ROOT)), {}, str(ROOT))
    assert (ROOT / "poorhttp.ini").read_text() == text, "run: poorhttp examples/tour --dump-config > poorhttp.ini"


def test_committed_ini_holds_every_default():
    flags = Flags()
    flags.config = "poorhttp.ini"
    read, default = reading.read(flags, {}, str(ROOT)), reading.read(Flags(), {}, str(ROOT))
    assert not read.notes
    for name in set(SETTINGS) - {"application"}:
        assert getattr(read, name) == getattr(default, name), name
    assert default.application == str(ROOT)
    assert read.application in (f"{ROOT}/examples/tour", "examples/tour")


def test_the_page_holds_the_settings_table():
    text = (ROOT / "docs" / "settings.md").read_text()
    assert text.count(FROM) == text.count(TO) == 1
    table = text.partition(FROM)[2].partition(TO)[0].strip()
    rows = [
        f"| `{each.name}` | {f'`{each.shown_default}`' if each.shown_default else ''} | {each.help} |"
        for each in SETTINGS.values()
    ]
    now = "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
    assert table == now, f"the table of today:\n{now}"


def test_serving_path_imports_next_to_nothing():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import poorhttp.cli, poorhttp.listen.sockets, poorhttp.app.loader\n"
        f"print([name for name in {LAZY} if name in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{code}"],
                          capture_output=True, text=True, timeout=30, check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"
