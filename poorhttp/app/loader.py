"""`module:name`, a file, or a directory with `dispatch_table.py` -> a WSGI callable.

Knows how an application is found and imported. Does not know what it does.
"""

from __future__ import annotations

import sys

from poorhttp.app import failures
from poorhttp.app.callables import candidates, check
from poorhttp.app.places import TABLE, is_own, module_of, table_of, title
from poorhttp.config.paths import Application, split_application
from poorhttp.errors import LoadError, nearest
from poorhttp.stdlib import make_way, maker_of_greenlets, os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from poorhttp.app.callables import WSGI
    from poorhttp.config.model import Config

DEFAULT_NAMES = ("application", "app")


def load(spec: str, directory: str, may_be_command: bool = False, of_table: Mapping[str, Any] | None = None) -> WSGI:
    """Return the application; `directory` (absolute) is where modules and paths are looked for. may_be_command: whether
    the word could be a mistyped command. of_table: settings with which only a dispatch table can do something, as
    keywords of `poorhttp.dispatch.application`. Raises LoadError with a hint; KeyboardInterrupt passes through.
    """
    place, name = split_application(Application().parse(spec, directory))
    if os.path.isabs(place) and not name and os.path.isfile(table_of(place)):
        return _dispatch(place, of_table or {})
    if of_table:
        raise no_table(title(spec))
    if not os.path.isabs(place):
        imported = _import(place, directory, may_be_command)
        try:
            return _attribute(imported, name, place)
        except LoadError as error:
            beside = os.path.join(directory, *place.split("."))
            if _is_pythons(place) and os.path.isdir(beside):  # the directory was meant
                raise failures.no_file(beside) from None
            is_theirs = not is_own(getattr(imported, "__file__", None) or "<")
            near = failures.command_near(place) if may_be_command and is_theirs else ""
            error.hint += f"; or did you mean poorhttp {near}?" if near else ""
            raise
    path = os.path.join(place, "__init__.py") if os.path.isdir(place) else place
    if not os.path.isfile(path):
        raise failures.no_file(place)
    directory, module = module_of(path)
    return _attribute(_import_file(path, directory, module), name, title(place))


def function(spec: str, directory: str) -> Callable[[int], object]:
    """Return what `module:name` names; `directory` (absolute) is where the module is looked for. Raises LoadError."""
    place, name = split_application(spec)
    found = _named(_import(place, directory), name, place)
    if not callable(found):
        raise LoadError(f"{spec} is not callable: it is of type {type(found).__name__}", "name a function")
    called: Callable[[int], object] = found
    return called


def suited(settings: Config, warn: Callable[[str], None]) -> Config:
    """Return the configuration that suits the loaded application: one thread, if it has replaced threads by greenlets,
    whose locks work within one thread only. warn: takes a line for the log.
    """
    library = maker_of_greenlets()
    if not library or settings.threads == 1:
        return settings
    text = f"{library} replaces threads by greenlets: each process serves with one thread, not {settings.threads}"
    warn(f"{text}; set processes to serve more requests at once")
    return settings.replace(threads=1)


def no_table(title: str) -> LoadError:
    """Return the error for an application that does not know the setting `document`."""
    hint = "remove document, and let the application or the front server send files"
    return LoadError(f"document is set, and {title} is no dispatch table", hint)


def _dispatch(place: str, settings: Mapping[str, Any]) -> WSGI:
    from poorhttp.dispatch import TableError, application  # before modules of the author can hide it

    path = table_of(place)
    module = _import_file(path, os.path.dirname(path), TABLE)
    try:
        return application(module, **settings)
    except TableError as error:
        raise LoadError(f"{title(path)}: {error.fault}", f"expected {error.expected}") from None


def _import_file(path: str, directory: str, module: str) -> ModuleType:
    if not path.endswith(".py") or "." in os.path.basename(path)[:-3]:
        raise LoadError(f"{title(path)} cannot be imported by its name", "name it NAME.py, with no other dot")
    imported = _import(module, directory)
    file = getattr(imported, "__file__", None)
    if not file or not os.path.samefile(file, path):
        raise LoadError(f"{title(path)} is hidden by the module {module} of {file or 'Python'}", "rename the file")
    return imported


def _import(module: str, directory: str, may_be_command: bool = False) -> ModuleType:
    if "" in module.split(".") or ":" in module:
        raise LoadError(f"{module!r} is not the name of a module", failures.mistyped(module))
    make_way(directory)
    if sys.path[:1] != [directory]:
        sys.path.insert(0, directory)
    try:
        __import__(module)
        return sys.modules[module]
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise failures.no_module(error.name, directory, module, may_be_command) from None
        raise failures.failed(module, error, failures.beside(error.name or "", directory, module)) from None
    except (Exception, SystemExit) as error:
        raise failures.failed(module, error) from None


def _attribute(module: ModuleType, name: str, place: str) -> WSGI:
    """Return the application of a module by its name (`a.b`, `factory()`), or by one of the default names."""
    if not name:
        name = next((each for each in DEFAULT_NAMES if hasattr(module, each)), "")
    if not name:
        hint = failures.elsewhere(module) or failures.misnamed_table(module)
        hint = hint or candidates(module, place, DEFAULT_NAMES[0])
        raise LoadError(f"{place} has neither {' nor '.join(DEFAULT_NAMES)}", hint)
    found = _named(module, name, place)
    return check(_made_by(found, f"{place}:{name}") if name.endswith("()") else found, f"{place}:{name}")


def _named(module: ModuleType, name: str, place: str) -> Any:
    """Return the attribute of a module with this name (`a.b`), or the factory for `factory()`. Raises LoadError."""
    found: Any = module
    for part in name.removesuffix("()").split("."):
        if not hasattr(found, part):
            near = nearest(part, [each for each in dir(found) if not each.startswith("__")])
            hint = f"did you mean {place}:{name.replace(part, near)}?" if near else candidates(module, place, part)
            raise LoadError(f"{place} has no attribute {part!r}", hint)
        found = getattr(found, part)
    return found


def _made_by(factory: Any, title: str) -> Any:
    try:
        return factory()
    except (Exception, SystemExit) as error:
        raise failures.failed(title, error) from None


def _is_pythons(module: str) -> bool:
    """Whether a module is Python's own, or an empty one that Python made of a directory."""
    is_standard = module.partition(".")[0] in sys.stdlib_module_names
    return is_standard or getattr(sys.modules[module], "__file__", None) is None
