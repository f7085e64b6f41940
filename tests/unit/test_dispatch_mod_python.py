"""The adapter of Apache without Apache: options that are wrong. tests/process/test_apache.py has the rest."""

import sys
from types import SimpleNamespace

import pytest
from dispatching import table

from poorhttp.dispatch import TableError, mod_python


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("poorhttp.debug", "maybe", "PythonOption poorhttp.debug is 'maybe'; expected yes or no"),
        ("poorhttp.index", "", "PythonOption poorhttp.index is ''; expected yes or no"),
        ("poorhttp.indx", "yes", "PythonOption poorhttp.indx is unknown; expected one of poorhttp.debug, "),
        ("poorhttp.document", "/nowhere", "document is '/nowhere': No such file or directory"),
    ],
)
def test_a_wrong_option_is_told(monkeypatch, name, value, says):
    monkeypatch.setitem(sys.modules, "dispatch_table", table())
    with pytest.raises(TableError, match=says):
        mod_python.handler(SimpleNamespace(get_options=lambda: {name: value}))
