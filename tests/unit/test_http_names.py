"""The names of poorhttp.http: those of the original and of mod_python, and what is said about a wrong one."""

import http as standard
import subprocess
import sys
from pathlib import Path

import pytest

from poorhttp import http

ROOT = Path(__file__).resolve().parents[2]

METHODS = {"HEAD": 1, "GET": 2, "POST": 4, "PUT": 8, "DELETE": 16, "TRACE": 32, "OPTIONS": 64, "CONNECT": 128}

MOD_PYTHON = {
    "HTTP_CONTINUE": 100,
    "HTTP_OK": 200,
    "HTTP_NON_AUTHORITATIVE": 203,
    "HTTP_MOVED_PERMANENTLY": 301,
    "HTTP_MOVED_TEMPORARILY": 302,
    "HTTP_TEMPORARY_REDIRECT": 307,
    "HTTP_REQUEST_TIME_OUT": 408,
    "HTTP_REQUEST_ENTITY_TOO_LARGE": 413,
    "HTTP_REQUEST_URI_TOO_LARGE": 414,
    "HTTP_GATEWAY_TIME_OUT": 504,
    "HTTP_VARIANT_ALSO_VARIES": 506,
    "HTTP_NOT_EXTENDED": 510,
}

HEAVY = ("argparse", "configparser", "dataclasses", "datetime", "difflib", "enum", "html", "inspect", "json")
HEAVIER = ("logging", "pathlib", "re", "subprocess", "tempfile", "threading", "traceback", "typing", "urllib")


def test_methods_are_single_bits_and_their_unions():
    assert {name: getattr(http, "METHOD_" + name) for name in METHODS} == METHODS
    assert http.METHOD_GET_POST == http.METHOD_GET | http.METHOD_POST | http.METHOD_HEAD
    assert sum(METHODS.values()) | http.METHOD_PATCH == http.METHOD_ALL


@pytest.mark.parametrize("name", MOD_PYTHON)
def test_statuses_have_mod_pythons_names(name):
    assert getattr(http, name) == MOD_PYTHON[name]


def test_every_status_of_the_standard_library_has_a_name():
    ours = {value for name, value in vars(http).items() if name.startswith("HTTP_") and name != "HTTP_ERROR"}
    assert {int(status) for status in standard.HTTPStatus} <= ours


def test_every_named_final_status_has_a_status_line():
    from poorhttp.dispatch.reasons import status_line

    for name, value in vars(http).items():
        if name.startswith("HTTP_") and value >= 200:
            assert status_line(value).startswith(f"{value} ")
            assert len(status_line(value)) > 5


def test_log_levels_go_down_in_severity():
    names = ["EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG", "NOERRNO"]
    assert [getattr(http, "LOG_" + name) for name in names] == list(range(9))
    assert [getattr(http, "APLOG_" + name) for name in names] == list(range(9))


def test_results_of_handlers_differ():
    assert len({http.OK, http.DONE, http.DECLINED, http.HTTP_ERROR}) == 4


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("METHOD_GTE", "METHOD_GET"),
        ("HTTP_NOTFOUND", "HTTP_NOT_FOUND"),
        ("done", "DONE"),
        ("FieldStorge", "FieldStorage"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong, right):
    with pytest.raises(AttributeError, match=f"no name '{wrong}'; did you mean {right}"):
        getattr(http, wrong)


def test_a_name_that_is_near_to_nothing_is_just_unknown():
    with pytest.raises(AttributeError, match=r"no name 'xyzzy'$"):
        getattr(http, "xyzzy")  # noqa: B009


def test_a_wrong_import_is_an_import_error():
    with pytest.raises(ImportError):
        exec("from poorhttp.http import METHOD_GTE")


def test_names_of_the_standard_library_are_found():
    assert http.HTTPStatus is standard.HTTPStatus
    assert not hasattr(http, "HTTPStatuses")


def test_form_names_are_found():
    from poorhttp.dispatch import form

    assert http.FieldStorage is form.FieldStorage
    assert http.FormError is form.FormError


def test_importing_costs_almost_nothing_and_needs_no_engine():
    """In a process of its own: what the serving path imports is memory that each worker has."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from poorhttp import http; import poorhttp.dispatch;"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert not loaded & {*HEAVY, *HEAVIER, "http", "poorhttp._engine", "poorhttp.config.config", "poorhttp.cli"}
    mine = {name for name in loaded if name.startswith("poorhttp")}
    assert {name.split(".")[1] for name in mine if "." in name} == {"dispatch", "http"}
