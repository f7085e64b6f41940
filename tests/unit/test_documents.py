"""What the documents promise about the repository."""

import re
from pathlib import Path

import pytest

from poorhttp import __version__

ROOT = Path(__file__).resolve().parents[2]
MADE = (".", "target", "build")
"""How the directories begin that hold what was installed or built."""
DOCUMENTS = [path.relative_to(ROOT) for path in ROOT.rglob("*.md")]


@pytest.mark.parametrize(
    "path", [each for each in DOCUMENTS if not any(p.startswith(MADE) for p in each.parts)], ids=str
)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / path).read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / path.parent / link).exists()]
    assert missing == []


def test_the_readme_begins_with_the_version() -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    assert first.startswith(f"This is {__version__},")


def test_the_readme_names_the_rust_that_is_needed() -> None:
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    wanted = re.search(r'^rust-version = "([\d.]+)"', manifest, re.MULTILINE)
    assert wanted
    assert f"Rust {wanted[1]} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")
