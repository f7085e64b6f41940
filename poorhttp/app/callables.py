"""How to recognise a WSGI callable, and the names in a module that could be one.

Knows the arguments of functions, and the mistakes that they show. Calls nothing.
"""

from __future__ import annotations

from poorhttp.errors import LoadError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    WSGI = Callable[..., Iterable[bytes]]

COROUTINE, ASYNC_GENERATOR, VARIABLE_ARGUMENTS = 0x80, 0x200, 0x04
"""Flags of a code object, as in the inspect module."""

WITHOUT_ARGUMENTS: Any = object.__init__


def check(app: object, title: str) -> WSGI:
    """Return `app` if it can be called with (environ, start_response). Raises LoadError."""
    if not callable(app):
        hint = "a WSGI application is a function of (environ, start_response)"
        raise LoadError(f"{title} is not callable: it is of type {type(app).__name__}", hint)
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
    """Return the function that a call runs, and how many of its arguments are bound; a class is returned as it is."""
    method = app if isinstance(app, type) or hasattr(app, "__code__") or hasattr(app, "__func__") else app.__call__
    function = getattr(method, "__func__", method)
    return function, int(function is not method)


def candidates(module: ModuleType, place: str, missing: str) -> str:
    """Return the hint that names what could be the application, or a factory of it."""
    own: list[str] = []
    for name, each in vars(module).items():
        if not callable(each) or name[0] == "_":
            continue
        if not isinstance(each, (type, FUNCTION)) and _takes_requests(type(each)):
            own.insert(0, name)  # the application object of a framework
        elif getattr(each, "__module__", "") == module.__name__:
            own.append(f"{name}()" if _is_factory(each) else name)
    return f"callables in it: {', '.join(f'{place}:{name}' for name in own[:5])}" if own else f"define {missing}"


def _constructor(kind: Any, plain: Any = object) -> Any:
    """Return `__init__` if nothing else makes an instance. An instance may be the answer itself, which is iterated."""
    return kind.__init__ if kind.__new__ is plain.__new__ and type(kind).__call__ is type.__call__ else None


def _is_factory(value: Any) -> bool:
    if isinstance(value, type):
        return _takes_requests(value)
    code = getattr(value, "__code__", None)
    return isinstance(code, CODE) and code.co_argcount == 0 and not code.co_flags & VARIABLE_ARGUMENTS


def _takes_requests(kind: type) -> bool:
    """Whether instances of a class are WSGI applications, by the names of their arguments."""
    code = getattr(getattr(kind, "__call__", None), "__code__", None)  # noqa: B004
    return isinstance(code, CODE) and "start_response" in code.co_varnames[: code.co_argcount]


FUNCTION, CODE = type(check), type(check.__code__)
