"""Units of files and code: paths, a log that may be a program, the application and other functions in modules.

Knows how these are written, and makes paths absolute. Opens no file and imports no module.
"""

from __future__ import annotations

from poorhttp.config.addresses import unix_path
from poorhttp.config.units import Text
from poorhttp.stdlib import os


class Path(Text):
    """A file or a directory, absolute. If allowed also: "-" for a standard stream (`dash`), "" (`empty`), "|program"
    (`pipe`).
    """

    def __init__(self, metavar: str = "FILE", *, dash: bool = False, empty: bool = False, pipe: bool = False) -> None:
        self.metavar, self.dash, self.empty, self.pipe = metavar, dash, empty, pipe

    def parse(self, text: str, directory: str = "") -> str:
        if text == "-" and self.dash:
            return text
        if text.startswith("|") and self.pipe:
            return _command(text, directory)
        if not text and not self.empty:
            raise ValueError("the name of a file" + (" or -" if self.dash else ""))
        return os.path.join(directory, text) if text else text


class ControlSocket(Text):
    """The absolute path of a unix socket, or "". It may not lie in the user's home directory, where all programs of the
    user could reach it, and services often may not write.
    """

    metavar = "FILE"

    def parse(self, text: str, directory: str = "") -> str:
        if not text:
            return text
        path = os.path.join(directory, text)
        home = os.path.realpath(os.environ.get("HOME") or "/")
        place = os.path.realpath(os.path.dirname(path))
        if home != "/" and f"{place}/".startswith(f"{home}/"):
            raise ValueError(f"a path outside of the home directory {home}, such as /run/poorhttp/control.sock")
        if os.path.basename(path) in ("", ".", "..") or text.startswith(("@", "unix:")):
            raise ValueError("the path of a unix socket, such as /run/poorhttp/control.sock")
        return unix_path(path)


class Application(Text):
    """Where the application is: `module:name` as it is, `file.py[:name]` and a directory as absolute paths.

    A plain word is a directory if there is one of this name that has a dispatch table or is a package. Any other word
    is the name of a module, which the import looks for as Python does.
    """

    metavar = "APP"

    def parse(self, text: str, directory: str = "") -> str:
        if not text:
            raise ValueError("module:name, file.py or a directory")
        path, name = split_application(text)
        absolute = os.path.normpath(os.path.join(directory, path))
        marks = ("__init__.py",) if name else ("__init__.py", "dispatch_table.py")
        is_marked = any(os.path.isfile(os.path.join(absolute, each)) for each in marks)
        is_directory = bool(path) and os.path.isdir(absolute) and (is_marked or not path.isidentifier())
        if path.endswith(".py") or "/" in path or path in (".", "..") or is_directory:
            path = absolute
        return f"{path}:{name}" if name else path


class Function(Text):
    """Where a function is: `module:name`, or ""."""

    metavar = "MODULE:NAME"

    def parse(self, text: str, directory: str = "") -> str:
        module, name = split_application(text)
        if text and not (name and all(each.isidentifier() for each in f"{module}.{name}".split("."))):
            raise ValueError("module:function, such as hooks:worker_ended")
        return text


def split_application(spec: str) -> tuple[str, str]:
    """Split `module:name` or `file.py:name()`; the name is "" if there is none (a colon may be part of a path)."""
    place, colon, name = spec.rpartition(":")
    if colon and all(part.isidentifier() for part in name.removesuffix("()").split(".")):
        return place, name
    return spec, ""


def _command(text: str, directory: str) -> str:
    """Return `|program arguments` with an absolute path of the program if it has a slash. Raises ValueError."""
    import shlex

    try:
        words = shlex.split(text[1:])
    except ValueError:
        words = []
    if words:
        is_relative = "/" in words[0] and not os.path.isabs(words[0])
        return "|" + shlex.join([os.path.join(directory, words[0]), *words[1:]]) if is_relative else text
    raise ValueError("a command after |, with each quote closed")
