"""Where an application lies, and how its files are named to a person.

Knows paths, and which files of code are the author's. Imports nothing of the author.
"""

from __future__ import annotations

from poorhttp.config.paths import split_application
from poorhttp.stdlib import os

TABLE = "dispatch_table"

SERVER, PYTHON = (os.path.join(os.path.dirname(each), "") for each in (os.path.dirname(__file__), os.__file__))
"""Prefixes of the files of this server, and of Python's own modules."""

NOT_THEIRS = SERVER, os.path.join(PYTHON, "importlib", ""), "<frozen importlib"
"""Prefixes of files whose frames say nothing to the author: the server and the import system."""


def title(spec: str) -> str:
    """Return the name of an application for a person: a path from the current directory, or `module:name`."""
    place, name = split_application(spec)
    if os.path.isabs(place):
        place = seen(table_of(place) if not name and os.path.isfile(table_of(place)) else place)
    return f"{place}:{name}" if name else place


def seen(path: str) -> str:
    """Return a path, relative to the current directory if it lies in it."""
    try:
        near = os.path.relpath(path)
    except FileNotFoundError:  # the current directory was removed, as by a checkout
        return path
    return path if near.startswith("..") or path == f"/{near}" else near  # in / every path would lose its slash


def is_own(file: str) -> bool:
    """Whether a file of code is the author's, and neither Python's nor of an installed package."""
    return (
        not file.startswith((*NOT_THEIRS, "<", PYTHON))
        and "/site-packages/" not in file
        and "/dist-packages/" not in file
    )


def table_of(directory: str) -> str:
    """Return the path of the dispatch table of a directory, or of `dispatch_table.py` itself."""
    if os.path.basename(directory) == f"{TABLE}.py":
        return directory
    return os.path.join(directory, f"{TABLE}.py")


def wsgi_modules(directory: str) -> list[str]:
    """Return each `package/wsgi.py` of a directory: Django projects have their application there."""
    from poorhttp.stdlib import glob

    return sorted(glob.glob("*/wsgi.py", root_dir=directory))


def module_of(path: str) -> tuple[str, str]:
    """Return directory and module name of a file; in a package the name begins with that of the package."""
    directory, name = os.path.split(path.removesuffix(".py"))
    while os.path.isfile(os.path.join(directory, "__init__.py")) and os.path.basename(directory).isidentifier():
        directory, package = os.path.split(directory)
        name = f"{package}.{name}"
    return directory, name.removesuffix(".__init__")
