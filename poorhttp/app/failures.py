"""Why an application cannot be loaded, as an error with a hint that fits the mistake.

Knows the mistakes that people make. Loads nothing. The traceback in an error is the application's own, without frames
of the server.
"""

from __future__ import annotations

import sys

from poorhttp.app.places import NOT_THEIRS, TABLE, is_own, seen, table_of, title, wsgi_modules
from poorhttp.config.commands import ACTIONS, COMMANDS, MAKING, PURGE
from poorhttp.errors import LoadError, MissingError, nearest, suggestion
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType

FORMS = "write module:name, 'module:factory()', file.py or a directory"
WORDS = [*ACTIONS, *MAKING]
"""The commands, one of which a user may have mistyped."""


def failed(what: str, error: BaseException, remedy: str = "") -> LoadError:
    """Return the error for an application that raised `error` while it was loaded, with its own traceback."""
    if isinstance(error, LoadError):
        return error
    trace, line = account_of(error)
    where = place_of(error)
    return LoadError(f"{where or f'{what} cannot be loaded: '}{line}", remedy or _remedy(error, trace, what), trace)


def place_of(error: BaseException) -> str:
    """Return the last line of the author that led to an exception, as `file:line: `, or ""."""
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame.f_code.co_filename):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        file, line = error.filename, error.lineno or 0
    return f"{seen(file)}:{line}: " if file else ""


def account_of(error: BaseException) -> tuple[str, str]:
    """Return the traceback with only the application's own frames, also of exceptions that led to this one, and the
    line that names the exception.
    """
    from poorhttp.stdlib import traceback

    formatted = traceback.TracebackException.from_exception(error)
    lines = [line for line in "".join(formatted.format_exception_only()).split("\n") if line and not line[0].isspace()]
    each: traceback.TracebackException | None = formatted
    while each:
        each.stack = traceback.StackSummary.from_list(
            [frame for frame in each.stack if not frame.filename.startswith(NOT_THEIRS)]
        )
        each = each.__cause__ or each.__context__
    return "".join(formatted.format()), lines[0] if lines else type(error).__name__


def suggested(error: BaseException, trace: str) -> str:
    """Return the suggestion for a NameError that Python makes itself from 3.12 on; "" for others."""
    frame = _innermost(error)
    if not isinstance(error, NameError) or frame is None or "Did you mean" in trace:
        return ""
    return suggestion(error.name or "", {*frame.f_locals, *frame.f_globals, *frame.f_builtins})


def no_file(place: str) -> LoadError:
    """Return the error for a path that is neither a Python file nor a directory with an application."""
    try:
        os.stat(table_of(place) if os.path.isdir(place) else place)
    except PermissionError as error:
        return LoadError(f"{title(place)}: {error.strerror}", "may this user look into each directory of this path?")
    except OSError:
        pass
    if os.path.isdir(place):
        listed = _near("", place)
        hint = f"{listed}; name the one to serve" if listed else f"write {TABLE}.py, as poorhttp init does"
        name = title(place)
        return MissingError(f"{place if name == '.' else name}: no {TABLE}.py in this directory", hint)
    if os.path.exists(place):
        return LoadError(f"{title(place)} is not a file", "it must be file.py or a directory")
    directory, file = os.path.split(place)
    hint = mistyped(file) if ":" in file else _near(file, directory)
    return MissingError(f"{title(place)} does not exist", hint or "is the path right?")


def no_module(missing: str, directory: str, spec: str, may_be_command: bool) -> LoadError:
    """Return the error for a module that is not found. missing: its name, or that of a package on the way to it. spec:
    what the user wrote.
    """
    if os.path.isfile(os.path.join(directory, spec)):
        return LoadError(f"{spec} is no Python file", FORMS)
    package, dot, name = missing.rpartition(".")
    if package and hasattr(sys.modules.get(package), name):
        return LoadError(f"no module {missing!r}", f"did you mean {package}:{name}?")
    place = os.path.join(directory, *package.split("."))
    if not package or not os.path.isdir(place):  # perhaps the name before a mistyped .py
        place, package, dot = directory, "", ""
    hint = ""
    try:
        files = os.listdir(place)
    except OSError:
        files = []
    modules = [package + dot + each.removesuffix(".py") for each in files if each.removesuffix(".py").isidentifier()]
    if not package:
        modules += [each for each in files if each.endswith(".py")]
        modules += WORDS if may_be_command and "." not in spec else []
        if spec in WORDS:
            hint = f"a command goes before everything else: poorhttp {spec}"
        elif spec.replace("-", "_") in COMMANDS:
            hint = f"did you mean --{spec}?"
        elif spec == PURGE[0]:
            hint = f"did you mean poorhttp {' '.join(PURGE)} ADDRESS?"
    otherwise = "set chdir to its directory, or start poorhttp from the environment in which it is installed"
    hint = hint or suggestion(missing, modules, otherwise)
    return LoadError(f"no module {missing!r} in {place} or on Python's path", hint)


def beside(missing: str, directory: str, module: str) -> str:
    """Return the hint for a module beside the file of the application, where Python does not look; else ""."""
    path = os.path.join(directory, *module.split(".")) + ".py"
    place = os.path.dirname(path)
    found = next(filter(os.path.isfile, (os.path.join(place, missing, "__init__.py"), f"{place}/{missing}.py")), "")
    if not missing or place == directory or not found or not os.path.isfile(path):
        return ""
    if os.path.isfile(os.path.join(place, "__init__.py")):
        return f"{seen(found)} is in a package: import it as {module.rpartition('.')[0]}.{missing}"
    return f"{seen(found)} is there: name the application by its file, {seen(path)}"


def mistyped(spec: str) -> str:
    """Return the hint for a text that is no application by its form."""
    if spec.endswith(")") and not spec.endswith("()"):
        return "poorhttp calls a factory without arguments: write a function without arguments that calls it"
    return f"did you mean '{spec})'? {FORMS}" if spec.endswith("(") else FORMS


def command_near(word: str) -> str:
    """Return the command that a word probably is a misspelling or the begin of, or ""."""
    return next((each for each in WORDS if each.startswith(word)), "") or nearest(word, WORDS)


def elsewhere(module: ModuleType) -> str:
    """Return the hint for the package or manage.py of a Django project, whose application is in wsgi.py; else ""."""
    directory, file = os.path.split(getattr(module, "__file__", None) or "")
    path = os.path.join(directory, "wsgi.py")
    found = [path] if file == "__init__.py" and os.path.isfile(path) else []
    if file == "manage.py":
        found = [os.path.join(directory, each) for each in wsgi_modules(directory)]
    return f"did you mean {' or '.join(map(seen, found))}?" if found else ""


def misnamed_table(module: ModuleType) -> str:
    """Return the hint for a dispatch table in a file of another name; else ""."""
    file = getattr(module, "__file__", None) or ""
    if not isinstance(getattr(module, "handlers", None), dict) or not is_own(file):
        return ""
    served = f"its directory is served, as in poorhttp {seen(os.path.dirname(file))}"
    return f"it has handlers: a dispatch table is a file named {TABLE}.py, and {served}"


def _near(file: str, directory: str) -> str:
    """Return the hint with the Python files of a directory, and the one whose name is nearest to `file`."""
    try:
        files = sorted(each for each in os.listdir(directory) if each.endswith(".py")) + wsgi_modules(directory)
    except PermissionError:
        return ""
    except OSError:
        return f"there is no directory {directory}"
    listed = f"there are: {', '.join(seen(os.path.join(directory, each)) for each in files[:8])}" if files else ""
    near = nearest(file, files)
    return f"did you mean {seen(os.path.join(directory, near))}? {listed}" if near else listed


def _absent(module: str) -> str:
    """Return the hint for a module that the application imports and that is not found."""
    from poorhttp.stdlib import pkgutil

    package, dot, _ = module.rpartition(".")
    places, near = [], ""
    try:  # a package and the hooks of imports may be the author's
        found = sys.modules[package].__path__ if package else sys.path[:1]
        places = [each for each in found if isinstance(each, str)]
        near = nearest(module, [package + dot + each.name for each in pkgutil.iter_modules(places)])
    except Exception:
        near = ""
    if package and places and is_own(os.path.join(places[0], "")):
        return f"did you mean {near}?" if near else f"there is no module of this name in {seen(places[0])}"
    return f"{f'did you mean {near}? Or ' if near else ''}is it installed for {sys.executable}?"


def _innermost(error: BaseException) -> FrameType | None:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame if step is not None else None


def _remedy(error: BaseException, trace: str, what: str) -> str:
    if isinstance(error, SystemExit):
        return "the module ended Python while it was imported; put that call under if __name__ == '__main__'"
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "http":
        return "this http is the standard library's; write: from poorhttp import http"
    if isinstance(error, ModuleNotFoundError):
        return _absent(error.name or "")
    frame = _innermost(error)
    if isinstance(error, ImportError) and error.name == what and frame and frame.f_code.co_filename == error.path:
        return f"{what}.py hides the installed {what}, and so imports itself: rename the file"
    if isinstance(error, ImportError) and error.name == "http":
        return "this http is the standard library's; write: from poorhttp.http import ..."
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "name the module with its package: package.module:name"
    if '  File "' in trace:
        return suggested(error, trace) or "the traceback above is the application's own"
    if isinstance(error, OSError):
        return "may this user read the file?"
    if isinstance(error, TypeError):
        return "poorhttp calls a factory without arguments; write the name of an application without ()"
    return "is the file complete?"
