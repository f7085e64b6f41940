"""What the documents promise about the repository, and that their links work."""

import re
from pathlib import Path

import pytest

from poorhttp import __version__
from poorhttp.config import reading
from poorhttp.config.flags import parse_flags

ROOT = Path(__file__).resolve().parents[2]
MADE = (".", "target", "build")
"""How the directories begin that hold what was installed or built."""
FOLDERS = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(MADE)]
DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in folder.rglob("*.md")))
    if not any(part.startswith(MADE) for part in path.relative_to(ROOT).parts)
)
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """The text without code, in which a bracket is no link and `#` no heading."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^    .*", "", text, flags=re.MULTILINE)


def links(path: Path) -> list[tuple[Path, str]]:
    """The file and the anchor (or "") of each link to something in the repository."""
    found = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)) if "://" not in link]
    return [((path.parent / file).resolve() if file else path, anchor) for file, _, anchor in found]


def anchors(path: Path) -> set[str]:
    """What GitHub makes of the headings: small letters, no punctuation, a hyphen for each space."""
    headings = re.findall(r"^#+ (.*)", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    assert [str(file) for file, _ in links(path) if not file.exists()] == []
    assert [f"{file}#{anchor}" for file, anchor in links(path) if anchor and anchor not in anchors(file)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_tables_have_a_head_and_equal_rows(path: Path) -> None:
    """A blank line within a table ends it: the rest is shown as text."""
    for table in re.findall(r"(?:^\|.*\n)+", prose(path), re.MULTILINE):
        columns = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
        assert re.fullmatch(r"\|(?: *:?-+:? *\|)+", ([*table.splitlines(), ""])[1]), table
        assert len(set(columns)) == 1, table


@pytest.mark.parametrize("path", [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *PAGES], ids=name)
def test_files_that_are_named_are_there(path: Path) -> None:
    named = re.findall(r"`((?:\w+/)+\w[\w.-]*\.(?:md|py|rs|sh|txt))`", prose(path))
    assert [file for file in named if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_each_page_is_found_from_the_readme(path: Path) -> None:
    assert path in {file for page in (ROOT / "README.md", *PAGES) if page != path for file, _ in links(page)}


def test_the_readme_is_short() -> None:
    assert len(re.sub(r"^!\[.*", "", README, flags=re.MULTILINE).split()) <= 900


def test_pictures_are_small() -> None:
    shown = [file for file, _ in links(ROOT / "README.md") if file.suffix in (".png", ".svg")]
    pictures = [*(ROOT / "docs").glob("*.png"), *shown]
    assert pictures and [name(path) for path in pictures if path.stat().st_size > 100_000] == []


def test_the_readme_names_the_version() -> None:
    assert README.split("\n\n")[2].startswith(f"This is {__version__},")


def test_the_readme_names_the_rust_that_is_needed() -> None:
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    wanted = re.search(r'^rust-version = "([\d.]+)"', manifest, re.MULTILINE)
    assert wanted
    assert f"Rust {wanted[1]} or newer" in README


def test_the_configuration_of_the_readme_is_understood(tmp_path: Path) -> None:
    (text,) = re.findall(r"```ini\n(.*?)```", README, re.DOTALL)
    (tmp_path / "poorhttp.ini").write_text(text)
    read = reading.read(parse_flags(["-c", "poorhttp.ini"], str(tmp_path)), {}, str(tmp_path))
    assert (read.application, read.type, read.notes) == ("mysite.wsgi", "forking", ())
