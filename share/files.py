"""The files that are written: path in the repository, which is that in an environment too, and the text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from share import bash, fish, manual_page, zsh

ROOT = Path(__file__).resolve().parents[1]

FILES: dict[str, Callable[[], str]] = {
    "share/man/man1/poorhttp.1": lambda: manual_page.text(ROOT / "docs"),
    "share/bash-completion/completions/poorhttp": bash.text,
    "share/zsh/site-functions/_poorhttp": zsh.text,
    "share/fish/vendor_completions.d/poorhttp.fish": fish.text,
}
