"""`module:name`, a file, or a directory with `dispatch_table.py` -> a WSGI callable.

Knows where an application is found, what a WSGI callable looks like and which mistakes are made. Does not know what the
application does, nor who will call it.
Contract: `load` returns a callable that can be called with (environ, start_response), or raises LoadError with a
remedy; the traceback of an application that fails is its own, without our frames. KeyboardInterrupt passes through.
"""

from __future__ import annotations

import sys

from poorhttp.config.units import Application, split_application
from poorhttp.errors import LoadError, nearest, suggestion
from poorhttp.stdlib import make_way, maker_of_greenlets, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, ModuleType
    from typing import Any

    from poorhttp.config.config import Config

    WSGI = Callable[..., Iterable[bytes]]

DEFAULT_NAMES = ("application", "app")
TABLE = "dispatch_table"
FORMS = "write module:name, 'module:factory()', file.py or a directory"
NOT_THEIRS = (
    os.path.join(os.path.dirname(os.path.dirname(__file__)), ""),
    os.path.join(os.path.dirname(os.__file__), "importlib", ""),
    "<frozen importlib",
)
"""How the names of files begin whose frames tell the author of an application nothing."""

PYTHONS = os.path.join(os.path.dirname(os.__file__), "")
"""And how those of Python's own modules do."""

COROUTINE, ASYNC_GENERATOR, VARIABLE_ARGUMENTS = 0x80, 0x200, 0x04
"""Flags of a code object, as in the inspect module."""


def load(spec: str, directory: str, may_be_command: bool = False) -> WSGI:
    """Return the application; `directory` (absolute) is where modules and paths are looked for. Raises LoadError.

    may_be_command: it is a word that could be a mistyped command.
    """
    place, name = split_application(Application().parse(spec, directory))
    if not os.path.isabs(place):
        imported = _import(place, directory, may_be_command)
        try:
            return _attribute(imported, name, place)
        except LoadError as error:
            beside = os.path.join(directory, *place.split("."))
            if _is_pythons(place) and os.path.isdir(beside):  # which was meant, and of which Python makes nothing
                raise _no_file(beside) from None
            is_theirs = not is_own(getattr(imported, "__file__", None) or "<")
            near = _command_near(place) if may_be_command and is_theirs else ""
            error.hint += f"; or did you mean poorhttp {near}?" if near else ""
            raise
    if not name and os.path.isfile(_table(place)):
        return _dispatch(place)
    path = os.path.join(place, "__init__.py") if os.path.isdir(place) else place
    if not os.path.isfile(path):
        raise _no_file(place)
    directory, module = _module_of(path)
    return _attribute(_import_file(path, directory, module), name, title(place))


def function(spec: str, directory: str) -> Callable[[int], object]:
    """Return what `module:name` names; `directory` (absolute) is where the module is looked for. Raises LoadError."""
    place, name = split_application(spec)
    found = _named(_import(place, directory), name, place)
    if not callable(found):
        raise LoadError(f"{spec} is not callable: {type(found).__name__}", "name a function")
    called: Callable[[int], object] = found
    return called


def title(spec: str) -> str:
    """Return what is served, for a person: a path as it is seen from the current directory, or `module:name`."""
    place, name = split_application(spec)
    if os.path.isabs(place):
        place = seen(_table(place) if not name and os.path.isfile(_table(place)) else place)
    return f"{place}:{name}" if name else place


def seen(path: str) -> str:
    """Return a path as it is seen from the current directory, where it lies there."""
    try:
        near = os.path.relpath(path)
    except FileNotFoundError:  # there is none: it is just being exchanged, as by a checkout
        return path
    return path if near.startswith("..") or path == f"/{near}" else near  # in / everything would lose its slash


def is_own(file: str) -> bool:
    """Whether a file of code is the author's, rather than Python's or a package's."""
    return (
        not file.startswith((*NOT_THEIRS, "<", PYTHONS))
        and "/site-packages/" not in file
        and "/dist-packages/" not in file
    )


def check(app: object, title: str) -> WSGI:
    """Return `app` if it can be called with (environ, start_response). Raises LoadError."""
    if not callable(app):
        hint = "a WSGI application is a function of (environ, start_response)"
        raise LoadError(f"{title} is not callable: {type(app).__name__}", hint)
    function, bound = function_of(app)
    if isinstance(function, type):
        function, bound = _constructor(function), 1
    if function is WITHOUT_ARGUMENTS:
        raise LoadError(f"{title} is a class that takes no arguments", f"if it makes the application, write {title}()")
    code = getattr(function, "__code__", None)
    if not isinstance(code, CODE):
        return app
    names = code.co_varnames[bound : code.co_argcount]
    if code.co_flags & (COROUTINE | ASYNC_GENERATOR) and len(names) == 2:
        raise LoadError(f"{title} is an async function, which WSGI does not know", "write def, not async def")
    if code.co_flags & (COROUTINE | ASYNC_GENERATOR) or names[:3] == ("scope", "receive", "send"):
        raise LoadError(f"{title} is an ASGI application", "poorhttp serves WSGI; the package a2wsgi can wrap it")
    required = len(names) - len(function.__defaults__ or ())
    if required > 2 or (len(names) < 2 and not code.co_flags & VARIABLE_ARGUMENTS):
        hint = "it takes (environ, start_response)" if required else f"if it makes the application, write {title}()"
        raise LoadError(f"{title} takes ({', '.join(names)}): that is no WSGI application", hint)
    return app


def function_of(app: Any) -> tuple[Any, int]:
    """Return the function that a call runs, and how many of its arguments are bound already; a class is left alone."""
    method = app if isinstance(app, type) or hasattr(app, "__code__") or hasattr(app, "__func__") else app.__call__
    function = getattr(method, "__func__", method)
    return function, int(function is not method)


def _constructor(kind: Any, plain: Any = object) -> Any:
    """What is called to make an instance, where that is `__init__` alone; it may be an answer, which is iterated."""
    return kind.__init__ if kind.__new__ is plain.__new__ and type(kind).__call__ is type.__call__ else None


FUNCTION, CODE = type(check), type(check.__code__)
WITHOUT_ARGUMENTS: Any = object.__init__


# Files and directories


def _table(directory: str) -> str:
    """The dispatch table of a directory; `dispatch_table.py` itself is as good as its directory."""
    if os.path.basename(directory) == f"{TABLE}.py":
        return directory
    return os.path.join(directory, f"{TABLE}.py")


def _dispatch(place: str) -> WSGI:
    from poorhttp.dispatch import TableError, application  # before modules of the author's are found

    path = _table(place)
    module = _import_file(path, os.path.dirname(path), TABLE)
    try:
        return application(module)
    except TableError as error:
        raise LoadError(f"{title(path)}: {error.fault}", f"expected {error.expected}") from None


def _module_of(path: str) -> tuple[str, str]:
    """Return directory and module name of a file; that of a package's file begins with the package."""
    directory, name = os.path.split(path.removesuffix(".py"))
    while os.path.isfile(os.path.join(directory, "__init__.py")) and os.path.basename(directory).isidentifier():
        directory, package = os.path.split(directory)
        name = f"{package}.{name}"
    return directory, name.removesuffix(".__init__")


def _no_file(place: str) -> LoadError:
    try:
        os.stat(_table(place) if os.path.isdir(place) else place)
    except PermissionError as error:
        return LoadError(f"{title(place)}: {error.strerror}", "may this user look into each directory of this path?")
    except OSError:
        pass
    if os.path.isdir(place):
        listed = _near("", place)
        hint = f"{listed}; name the one to serve" if listed else f"write {TABLE}.py, as poorhttp init does"
        return LoadError(f"{title(place)}: no {TABLE}.py in this directory", hint)
    if os.path.exists(place):
        return LoadError(f"{title(place)} is not a file", "it must be file.py or a directory")
    directory, file = os.path.split(place)
    hint = _mistyped(file) if ":" in file else _near(file, directory)
    return LoadError(f"{title(place)} does not exist", hint or "is the path right?")


def wsgi_modules(directory: str) -> list[str]:
    """Return each `package/wsgi.py` of a directory: where a Django project has its application."""
    from poorhttp.stdlib import glob

    return sorted(glob.glob("*/wsgi.py", root_dir=directory))


def _near(file: str, directory: str) -> str:
    """The hint that names the Python files of a directory, and the one that is nearest to `file`."""
    try:
        files = sorted(each for each in os.listdir(directory) if each.endswith(".py")) + wsgi_modules(directory)
    except PermissionError:
        return ""
    except OSError:
        return f"there is no directory {directory}"
    listed = f"there are: {', '.join(seen(os.path.join(directory, each)) for each in files[:8])}" if files else ""
    near = nearest(file, files)
    return f"did you mean {seen(os.path.join(directory, near))}? {listed}" if near else listed


# Modules


def _import_file(path: str, directory: str, module: str) -> ModuleType:
    if not path.endswith(".py") or "." in os.path.basename(path)[:-3]:
        raise LoadError(f"{title(path)} cannot be imported by its name", "call it NAME.py, without further dots")
    imported = _import(module, directory)
    file = getattr(imported, "__file__", None)
    if not file or not os.path.samefile(file, path):
        raise LoadError(f"{title(path)} is hidden by the module {module} of {file or 'Python'}", "rename the file")
    return imported


def _import(module: str, directory: str, may_be_command: bool = False) -> ModuleType:
    if "" in module.split(".") or ":" in module:
        raise LoadError(f"{module!r} is not the name of a module", _mistyped(module))
    make_way(directory)
    if sys.path[:1] != [directory]:
        sys.path.insert(0, directory)
    try:
        __import__(module)
        return sys.modules[module]
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise _no_module(error.name, directory, module, may_be_command) from None
        raise _failed(module, error, _beside(error.name or "", directory, module)) from None
    except (Exception, SystemExit) as error:
        raise _failed(module, error) from None


def _is_pythons(module: str) -> bool:
    """Whether it is Python's own, or a mere directory, of which Python makes a module where there is no other one."""
    is_standard = module.partition(".")[0] in sys.stdlib_module_names
    return is_standard or getattr(sys.modules[module], "__file__", None) is None


def _beside(missing: str, directory: str, module: str) -> str:
    """The hint where a module that was not found lies in the directory of the application's file; "" elsewhere."""
    path = os.path.join(directory, *module.split(".")) + ".py"
    place = os.path.dirname(path)
    found = next(filter(os.path.isfile, (os.path.join(place, missing, "__init__.py"), f"{place}/{missing}.py")), "")
    if not missing or place == directory or not found or not os.path.isfile(path):
        return ""
    if os.path.isfile(os.path.join(place, "__init__.py")):
        return f"{seen(found)} is in a package: import it as {module.rpartition('.')[0]}.{missing}"
    return f"{seen(found)} is there: name the application by its file, {seen(path)}"


def _mistyped(spec: str) -> str:
    if spec.endswith(")") and not spec.endswith("()"):
        return "a factory is called without arguments: write a function of none that gives them"
    return f"did you mean '{spec})'? {FORMS}" if spec.endswith("(") else FORMS


def _no_module(missing: str, directory: str, spec: str, may_be_command: bool) -> LoadError:
    if os.path.isfile(os.path.join(directory, spec)):
        return LoadError(f"{spec} is no Python file", FORMS)
    package, dot, name = missing.rpartition(".")
    if package and hasattr(sys.modules.get(package), name):
        return LoadError(f"no module {missing!r}", f"did you mean {package}:{name}?")
    place = os.path.join(directory, *package.split("."))
    if not package or not os.path.isdir(place):  # perhaps not a package, but what comes before a mistyped .py
        place, package, dot = directory, "", ""
    hint = ""
    try:
        files = os.listdir(place)
    except OSError:
        files = []
    modules = [package + dot + each.removesuffix(".py") for each in files if each.removesuffix(".py").isidentifier()]
    if not package:
        from poorhttp.config.config import ACTIONS, COMMANDS, MAKING

        modules += [each for each in files if each.endswith(".py")]
        words = [*ACTIONS, *MAKING]
        modules += words if may_be_command and "." not in spec else []
        if spec in words:
            hint = f"it is a command, which goes first and alone: poorhttp {spec}"
        elif spec.replace("-", "_") in COMMANDS:
            hint = f"did you mean --{spec}?"
    otherwise = "name its directory by chdir, or start in the environment in which it is installed"
    hint = hint or suggestion(missing, modules, otherwise)
    return LoadError(f"no module {missing!r} in {place} or on Python's path", hint)


def _command_near(word: str) -> str:
    """The command that a word was probably meant to be, "" where none is near: one that begins so, or is spelt so."""
    from poorhttp.config.config import ACTIONS, MAKING

    words = [*ACTIONS, *MAKING]
    return next((each for each in words if each.startswith(word)), "") or nearest(word, words)


def _attribute(module: ModuleType, name: str, place: str) -> WSGI:
    """Return the application of a module by its name (`a.b`, `factory()`), or by one of the default names."""
    if not name:
        name = next((each for each in DEFAULT_NAMES if hasattr(module, each)), "")
    if not name:
        hint = _elsewhere(module) or _callables(module, place, DEFAULT_NAMES[0])
        raise LoadError(f"{place} has neither {' nor '.join(DEFAULT_NAMES)}", hint)
    found = _named(module, name, place)
    return check(_made_by(found, f"{place}:{name}") if name.endswith("()") else found, f"{place}:{name}")


def _named(module: ModuleType, name: str, place: str) -> Any:
    """Return what a module has under this name (`a.b`); of `factory()` the factory. Raises LoadError."""
    found: Any = module
    for part in name.removesuffix("()").split("."):
        if not hasattr(found, part):
            near = nearest(part, [each for each in dir(found) if not each.startswith("__")])
            hint = f"did you mean {place}:{name.replace(part, near)}?" if near else _callables(module, place, part)
            raise LoadError(f"{place} has no attribute {part!r}", hint)
        found = getattr(found, part)
    return found


def _made_by(factory: Any, title: str) -> Any:
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise _failed(title, error) from None


def _callables(module: ModuleType, place: str, missing: str) -> str:
    """The hint that names what could be the application, or make it."""
    own: list[str] = []
    for name, each in vars(module).items():
        if not callable(each) or name[0] == "_":
            continue
        if not isinstance(each, (type, FUNCTION)) and _takes_requests(type(each)):
            own.insert(0, name)  # a framework's
        elif getattr(each, "__module__", "") == module.__name__:
            own.append(f"{name}()" if _is_factory(each) else name)
    return f"callable in it: {', '.join(f'{place}:{name}' for name in own[:5])}" if own else f"define {missing}"


def _is_factory(value: Any) -> bool:
    if isinstance(value, type):
        return _takes_requests(value)
    code = getattr(value, "__code__", None)
    return isinstance(code, CODE) and code.co_argcount == 0 and not code.co_flags & VARIABLE_ARGUMENTS


def _takes_requests(kind: type) -> bool:
    """Whether instances are WSGI applications, by the names of what they are called with."""
    code = getattr(getattr(kind, "__call__", None), "__code__", None)  # noqa: B004
    return isinstance(code, CODE) and "start_response" in code.co_varnames[: code.co_argcount]


def _elsewhere(module: ModuleType) -> str:
    """The hint where this is the package of a Django project or its manage.py: the application is in its wsgi.py."""
    directory, file = os.path.split(getattr(module, "__file__", None) or "")
    path = os.path.join(directory, "wsgi.py")
    found = [path] if file == "__init__.py" and os.path.isfile(path) else []
    if file == "manage.py":
        found = [os.path.join(directory, each) for each in wsgi_modules(directory)]
    return f"did you mean {' or '.join(map(seen, found))}?" if found else ""


# Failures


def _failed(what: str, error: BaseException, remedy: str = "") -> LoadError:
    """The error for an application that raised `error` while it was loaded, with its own traceback."""
    if isinstance(error, LoadError):
        return error
    trace, line = account_of(error)
    where = place_of(error)
    return LoadError(f"{where or f'{what} cannot be loaded: '}{line}", remedy or _remedy(error, trace, what), trace)


def place_of(error: BaseException) -> str:
    """Return the author's line to which it is due, as `file:line: `, or ""."""
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame.f_code.co_filename):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        file, line = error.filename, error.lineno or 0
    return f"{seen(file)}:{line}: " if file else ""


def account_of(error: BaseException) -> tuple[str, str]:
    """Return the traceback with the application's own frames, also where one exception led to another, and the line
    that says what the exception is, which may suggest something.
    """
    from poorhttp.stdlib import traceback

    told = traceback.TracebackException.from_exception(error)
    lines = [line for line in "".join(told.format_exception_only()).split("\n") if line and not line[0].isspace()]
    each: traceback.TracebackException | None = told
    while each:
        each.stack = traceback.StackSummary.from_list(
            [frame for frame in each.stack if not frame.filename.startswith(NOT_THEIRS)]
        )
        each = each.__cause__ or each.__context__
    return "".join(told.format()), lines[0] if lines else type(error).__name__


def _absent(module: str) -> str:
    """The hint about a module that the application imports and that is not there; it may be mistyped."""
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
        return f"did you mean {near}?" if near else f"there is none of this name in {seen(places[0])}"
    return f"{f'did you mean {near}? Or ' if near else ''}is it installed for {sys.executable}?"


def suggested(error: BaseException, trace: str) -> str:
    """What Python says itself from 3.12 on."""
    frame = _innermost(error)
    if not isinstance(error, NameError) or frame is None or "Did you mean" in trace:
        return ""
    return suggestion(error.name or "", {*frame.f_locals, *frame.f_globals, *frame.f_builtins})


def _innermost(error: BaseException) -> FrameType | None:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step.tb_frame if step is not None else None


def _remedy(error: BaseException, trace: str, what: str) -> str:
    if isinstance(error, SystemExit):
        return "it ended Python while it was imported; put that under if __name__ == '__main__'"
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "http":
        return "this http is the standard library's; write: from poorhttp import http"
    if isinstance(error, ModuleNotFoundError):
        return _absent(error.name or "")
    frame = _innermost(error)
    if isinstance(error, ImportError) and error.name == what and frame and frame.f_code.co_filename == error.path:
        return f"{what}.py imports itself, as it hides the {what} that is installed: rename the file"
    if isinstance(error, ImportError) and error.name == "http":
        return "this http is the standard library's; write: from poorhttp.http import ..."
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "name the module with its package: package.module:name"
    if '  File "' in trace:
        return suggested(error, trace) or "the traceback above is the application's own"
    if isinstance(error, OSError):
        return "may this user read it?"
    if isinstance(error, TypeError):
        return "a factory is called without arguments; an application is named without ()"
    return "is its file whole?"


def suited(settings: Config, warn: Callable[[str], None]) -> Config:
    """The configuration with which the application, which is loaded, can be served: with one thread where it has made
    greenlets of threads, since what it takes for locks and queues then works within one thread only.
    """
    maker = maker_of_greenlets()
    if not maker or settings.threads == 1:
        return settings
    text = f"{maker} makes greenlets of threads: one thread serves in each process, not {settings.threads}"
    warn(f"{text}; more processes serve more requests at once")
    return settings.but(threads=1)
