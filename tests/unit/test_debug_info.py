"""/debug-info: what it shows, to which clients, and that no secret is in it; and reasons on error pages under debug."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from dispatching import answer, call, raises, table, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import __version__, http
from poorhttp.dispatch import application
from poorhttp.dispatch.routes import Routes
from poorhttp.dispatch.table import read_routes
from poorhttp.sessions import Sessions

ROOT = Path(__file__).parents[2]
LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8080"}
SECRET = "qwerty1uiop"


def one(req):
    return "one"


def two(req, *values):
    return "two"


def gone(req, number):
    return "gone"


def info(names=None, environ=None, method="GET", path="/debug-info", **settings):
    """The answer to a client on this machine, for the author."""
    app = application(table(**({"handlers": {"/": (http.METHOD_GET, one)}} | (names or {}))), debug=True, **settings)
    return call(app, path, method, **{**LOCAL, **(environ or {})})


def rows(text, heading):
    """The rows of the table beneath a heading: texts of the cells."""
    part = text.partition(f"<h2>{heading}</h2>")[2].partition("<h2>")[0]
    found = re.findall(r"<tr>(.*?)</tr>", part.partition("<tbody>")[2], re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in found]


def test_the_table_is_shown_in_the_order_in_which_it_is_tried():
    handlers = {
        "/x/<name>": (http.METHOD_GET, two),
        "/x/<rest:path>": (http.METHOD_GET, two),
        "/x/<number:int>": {http.METHOD_GET: two, http.METHOD_POST | http.METHOD_PUT: two, http.METHOD_DELETE: gone},
        "/x/a": [(http.METHOD_GET, one), (http.METHOD_POST, functools.partial(one))],
    }
    shown = rows(info({"handlers": handlers}).text, "Table")
    line = one.__code__.co_firstlineno
    place = one.__code__.co_filename.removeprefix(f"{os.getcwd()}/")
    assert shown[:2] == [
        ["/x/a", "GET, HEAD", f"test_debug_info.one {place}:{line}"],
        ["/x/a", "POST", f"test_debug_info.one {place}:{line}"],
    ]
    paths = ["/x/&lt;number:int&gt;"] * 2 + ["/x/&lt;name&gt;", "/x/&lt;rest:path&gt;"]
    assert [row[0] for row in shown[2:]] == paths
    assert shown[2][1] == "GET, POST, PUT, HEAD" and shown[3][1] == "DELETE"


@given(
    st.permutations(["/<a>", "/<b:int>", "/x/<a>", "/x/<b:path>", "/<a>.<b>", "/y<a>", "/<a>/z", "/x", "/<a:hex>/z"])
)
def test_the_first_entry_that_takes_a_path_is_the_one_that_answers(patterns):
    routes = read_routes(table(handlers=dict.fromkeys(patterns, (http.METHOD_GET, two))))
    order = routes.in_order()
    assert sorted(pattern.text for pattern, _ in order) == sorted(patterns)
    for path in "/7", "/x", "/y.7", "/yes", "/x/y", "/x/y/z", "/ab/z", "/x/z", "/q/z", "/a.b":
        alone = []
        for pattern, methods in order:
            single = Routes()
            single.add(pattern, methods)
            if path in single.exact or single.find(path):
                alone.append(pattern.text)
        taker = path if path in routes.exact else routes.find(path)[0].text
        assert alone[0] == taker


def test_all_that_the_table_and_the_server_say_is_shown(tmp_path):
    names = {
        "converters": {"year": (r"[0-9]{4}", int)},
        "errors": {404: one, 500: two},
        "setreq": lambda req: None,
        "sessions": Sessions(f"sqlite:{tmp_path}/{SECRET}.db", idle=600),
    }
    sent = info(names, document=str(tmp_path), index=True, webmaster="me@<x>", options={"greeting": "ahoj s\u011bte"})
    text = sent.text
    assert sent.code == 200 and SECRET not in text
    assert [row[0] for row in rows(text, "Functions")] == ["setreq", "errors[404]", "errors[500]"]
    assert rows(text, "Converters") == [[":year", "[0-9]{4}", "builtins.int"]]
    assert rows(text, "Files") == [["document", str(tmp_path)], ["index", "yes"]]
    assert rows(text, "Sessions")[:2] == [["store", "SqliteStore"], ["idle", "600 s"]]
    assert ["poorhttp", __version__] in rows(text, "Versions") and ["Python", sys.version] in rows(text, "Versions")
    assert ["webmaster", "me@&lt;x&gt;"] in rows(text, "Settings")
    assert rows(text, "Options") == [["greeting", "ahoj s\u011bte"]]
    assert ["Host", "localhost:8080"] in rows(text, "Headers")
    assert ["REQUEST_METHOD", "GET"] in rows(text, "Environ")
    assert sent.header("Cache-Control") == "no-store" and "default-src 'none'" in sent.header("Content-Security-Policy")


def test_a_table_with_nothing_is_shown():
    text = info({"handlers": {}}).text
    assert "The table is empty." in text and "No hooks and no error functions." in text
    assert rows(text, "Sessions") == [["sessions", "none"]] and rows(text, "Files")[0] == ["document", "none"]


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_COOKIE": f"a={SECRET}"},
        {"HTTP_AUTHORIZATION": f"Basic {SECRET}"},
        {"HTTP_X_API_KEY": SECRET},
        {"QUERY_STRING": f"token={SECRET}"},
        {"QUERY_STRING": f"a=b&pass%77ord={SECRET}"},
        {"REQUEST_URI": f"/debug-info?token={SECRET}"},
        {"HTTP_REFERER": f"http://localhost/?x=y&acc%65ss_token={SECRET}"},
        {"DATABASE_URL": f"postgres://me:{SECRET}@localhost/db"},
        {"DB_PASSWORD": SECRET},
        {"SETTINGS": f"host=localhost password={SECRET}"},
        {"own.object": SimpleNamespace(name=SECRET)},
        {"own.list": [SECRET]},
        {"poorhttp.options": {"smtp_password": SECRET, "database": f"mysql://me:{SECRET}@host/"}},
    ],
    ids=str,
)
def test_no_secret_is_shown(environ):
    sent = info(environ=environ)
    assert sent.code == 200 and SECRET not in sent.text


@given(st.text(), st.text(), st.text(alphabet=st.characters(max_codepoint=255)))
def test_nothing_on_it_is_markup(name, value, header):
    app = application(table(handlers={"/<name:re:[<>&\"']+:>": (http.METHOD_GET, two)}), debug=True)

    def shown(options, header):
        environ = {"poorhttp.options": options, "HTTP_X_THING": header}
        return call(app, "/debug-info", valid=False, **LOCAL, **environ).text

    text, plain = shown({name: value}, header), shown({"": ""}, "")
    assert all(text.count(each) == plain.count(each) for each in "<>\"'")


@pytest.mark.parametrize(
    "environ",
    [
        {"REMOTE_ADDR": "192.0.2.7"},
        {"REMOTE_ADDR": ""},
        {"HTTP_HOST": "attacker.example"},
        {"HTTP_HOST": ""},
        {"HTTP_X_FORWARDED_FOR": "192.0.2.7"},
        {"HTTP_FORWARDED": "for=192.0.2.7"},
        {"poorhttp.forwarded": True},
        {"poorhttp.debug": False},
        {"poorhttp.debug": "no"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "names",
    [{}, {"default_handler": write("default")}, {"errors": {404: write("own")}}],
    ids=["", "default", "own 404"],
)
def test_for_other_clients_there_is_no_such_page(environ, names):
    """Their answer is that for a path which nobody has heard of."""
    found, missing = info(names, environ), info(names, environ, path="/nobody-knows")
    assert found.text.replace("/debug-info", "/nobody-knows") == missing.text
    assert found.status == missing.status
    assert [name for name, _ in found.headers] == [name for name, _ in missing.headers]


def test_other_methods_know_no_such_page():
    for method in "POST", "OPTIONS", "DELETE":
        assert info(method=method).code == info(method=method, path="/nobody-knows").code == 404
    sent = info(method="HEAD")
    assert sent.code == 200 and sent.body == b"" and int(sent.header("Content-Length")) > 1000


def test_an_entry_of_the_application_wins():
    for pattern, function in ("/debug-info", one), ("/<name>", two):
        assert info({"handlers": {pattern: (http.METHOD_GET, function)}}).text in ("one", "two")
    refused = {"setreq": raises(http.SERVER_RETURN(http.HTTP_FORBIDDEN))}
    assert info(refused).code == 403


def test_below_a_mount_point_links_lead_to_it():
    handlers = {"/a b": (http.METHOD_GET, one), "//host": (http.METHOD_GET, one), '/"': (http.METHOD_GET, one)}
    text = info({"handlers": handlers}, {"SCRIPT_NAME": "/app"}).text
    assert re.findall('href="([^"]*)"', text) == ["/app/a%20b", "/app/%22"]


def test_functions_of_any_kind_have_a_name():
    class Page:
        def __call__(self, req):
            return "page"

        def method(self, req):
            return "page"

    @functools.wraps(one)
    def wrapped(req):
        return one(req)

    kinds = {"/a": Page(), "/b": Page().method, "/c": wrapped, "/d": functools.partial(two), "/e": str}
    shown = rows(info({"handlers": {path: (http.METHOD_GET, each) for path, each in kinds.items()}}).text, "Table")
    names = [row[2].split(" ")[0].rpartition(".")[2] for row in shown]
    assert names == ["Page", "method", "one", "two", "str"]
    assert all(re.search(r"test_debug_info\.py:\d+$", row[2]) for row in shown[:4])


def test_the_page_costs_nothing_until_it_is_asked_for():
    code = """
import sys, types
from poorhttp.dispatch import application
from poorhttp import http
app = application(types.SimpleNamespace(handlers={"/": (http.METHOD_GET, lambda req: "page")}), debug=True)
environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.url_scheme": "http", "REMOTE_ADDR": "127.0.0.1"}
app(environ, lambda *all: None)
print(*[name for name in sys.modules if name.startswith("poorhttp.pages") or "debug_info" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""


# Reasons

ASKS = {
    "the field &#x27;name&#x27; is missing": lambda req: req.args["name"],
    "the field &#x27;age&#x27; has a wrong value": lambda req: req.args.getfirst("age", 0, int),
    "only for &lt;members&gt; 7": lambda req: http.abort(http.HTTP_FORBIDDEN, "only for <members>", 7),
}


@pytest.mark.parametrize("reason", ASKS)
def test_under_debug_a_page_tells_why(reason):
    environ = {"QUERY_STRING": "age=<b>"}
    assert reason in answer(ASKS[reason], settings={"debug": True}, environ=environ).text
    silent = answer(ASKS[reason], environ=environ).text
    assert reason not in silent and 'class="reason"' not in silent and "&lt;b" not in silent


def test_where_the_server_shows_its_pages_to_this_machine_only_so_are_reasons():
    handler = ASKS["only for &lt;members&gt; 7"]
    environ = {"poorhttp.debug": True, "poorhttp.error_page": lambda error, status: ({}, b"")}
    assert "members" in answer(handler, environ={**environ, **LOCAL}).text
    assert "members" not in answer(handler, environ=environ).text
    assert "members" not in answer(handler, environ={**environ, **LOCAL, "HTTP_HOST": "attacker.example"}).text


def test_a_reason_stands_on_the_page_of_its_status_only():
    """Not on that of the function which was to show it, and not on what another handler says."""
    names = {"errors": {403: raises(ValueError("failed"))}}
    text = answer(raises(http.SERVER_RETURN(403, "members")), settings={"debug": True}, names=names).text
    assert "members" not in text and "500" in text
    names = {"default_handler": write("default")}
    text = answer(raises(http.SERVER_RETURN(http.DECLINED, "members")), settings={"debug": True}, names=names).text
    assert text == "default"


def test_details_that_cannot_be_shown_end_no_request():
    class Broken:
        def __str__(self):
            raise ValueError("on purpose")

    sent = answer(raises(http.SERVER_RETURN(403, Broken())), settings={"debug": True})
    assert sent.code == 403 and "details that cannot be shown: ValueError" in sent.text


def test_functions_without_a_module_are_shown_by_their_names():
    names = {"converters": {"upper": ("[a-z]+", str.upper)}, "handlers": {"/<word:upper>": (http.METHOD_GET, two)}}
    sent = info(names)
    assert sent.code == 200 and [":upper", "[a-z]+", "str.upper"] in rows(sent.text, "Converters")
