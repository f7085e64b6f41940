"""What `help()` shows of the public modules: every name, and of each class every attribute."""

import inspect
import pydoc
import re

import pytest

import poorhttp.dispatch
import poorhttp.http
import poorhttp.sessions
from poorhttp.dispatch.headers import Headers, RequestHeaders

MODULES = [poorhttp.dispatch, poorhttp.http, poorhttp.sessions]
PUBLIC = [getattr(module, name) for module in MODULES for name in module.__all__]
CLASSES = [each for each in (*PUBLIC, Headers, RequestHeaders) if inspect.isclass(each)]
PYTHONS = set(dir(Exception)) | {"count", "index"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_help_has_every_name_and_each_is_described(module):
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            assert f"class {name}(" in text
        elif callable(value):
            assert f"{name}(" in text
        else:
            assert f"{name} = " in text
        assert isinstance(value, (int, dict)) or inspect.getdoc(value), name
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_attribute_is_described(kind):
    """By itself, or in the docstring of its class."""
    described = " ".join(inspect.getdoc(each) or "" for each in kind.__mro__ if each.__module__.startswith("poorhttp"))
    assert inspect.getdoc(kind)
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        if name[0] == "_" or name in PYTHONS:
            continue
        if value is None or isinstance(value, (int, str)) or inspect.ismemberdescriptor(value):
            assert re.search(rf"\b{name}\b", described), name
        else:
            assert inspect.getdoc(value), name


def test_every_name_can_be_imported_at_once():
    names = {}
    exec("from poorhttp.http import *", names)
    assert set(poorhttp.http.__all__) <= set(names) and "TYPE_CHECKING" not in names
