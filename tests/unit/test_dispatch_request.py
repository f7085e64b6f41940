"""What a handler asks of a request and sets in its answer: query, form, files, JSON, cookies and validators."""

import io
import json
import time
from http.cookies import SimpleCookie

import pytest
from dispatching import answer, call, table
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import application

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
UPLOAD = (
    b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nmine\r\n'
    b'--b\r\nContent-Disposition: form-data; name="photo"; filename="a.png"\r\n\r\nPNG\r\n--b--\r\n'
)


def ask(question, body=b"", valid=True, **environ):
    """The value of `question(req)` inside a handler that gets this request."""
    found = []
    sent = answer(
        lambda req: found.append(question(req)) or http.DONE,
        body=body,
        valid=valid,
        method="POST" if body else "GET",
        environ=environ,
    )
    assert sent.code == 200, (sent.code, sent.log)
    return found[0]


def code_of(question, body=b"", **environ):
    """The status of an answer whose handler asks this."""
    sent = answer(lambda req: question(req) and http.DONE, body=body, method="POST", environ=environ, valid=False)
    assert "Traceback" not in sent.log
    return sent.code


# Query and form


def test_the_query():
    query = "a=1&b=%C5%BE&a=2&blank="
    assert ask(
        lambda req: [req.args.getlist("a"), req.args["b"], req.args.getfirst("a", 0, int)], QUERY_STRING=query
    ) == [["1", "2"], "\u017e", 1]
    assert ask(lambda req: [list(req.args), len(req.args), "blank" in req.args], QUERY_STRING=query) == [
        ["a", "b"],
        2,
        False,
    ]
    assert ask(lambda req: req.args is req.args)
    assert ask(lambda req: req.args.getfirst("x", "default", convert=int)) == "default"
    assert ask(lambda req: req.args.getlist("a", fce=int), QUERY_STRING="a=1&a=2") == [1, 2]


def test_the_form_has_no_fields_of_the_query():
    found = ask(
        lambda req: (req.form.keys(), req.args.keys(), req.files.keys()),
        b"a=1",
        CONTENT_TYPE=URLENCODED,
        QUERY_STRING="b=2",
    )
    assert found == (["a"], ["b"], [])


def test_files_are_apart_from_texts():
    def question(req):
        photo = req.files["photo"]
        with photo.file:
            return req.form["text"], req.form.keys(), req.files.keys(), photo.filename, photo.file.read()

    assert ask(question, UPLOAD, CONTENT_TYPE=MULTIPART) == ("mine", ["text"], ["photo"], "a.png", b"PNG")


@pytest.mark.parametrize("form_first", [True, False])
def test_the_body_is_read_once_whatever_reads_it(form_first):
    def question(req):
        readers = [lambda: req.form.getfirst("text"), lambda: http.FieldStorage(req).getfirst("text")]
        found = [read() for read in (readers if form_first else readers[::-1])]
        req.files["photo"].file.close()
        return found

    assert ask(question, UPLOAD, CONTENT_TYPE=MULTIPART) == ["mine", "mine"]


def test_a_callback_takes_uploads_of_any_size_before_the_form_is_asked_for():
    stored = io.BytesIO()

    def question(req):
        http.FieldStorage(req, file_callback=lambda name: stored)
        return req.files["photo"].file is stored, req.form["text"]

    assert ask(question, UPLOAD, CONTENT_TYPE=MULTIPART) == (True, "mine")
    assert stored.getvalue() == b"PNG"


def test_a_form_that_was_refused_stays_refused():
    def question(req):
        with pytest.raises(http.FormError):
            req.form  # noqa: B018
        req.form  # noqa: B018

    assert code_of(question, b"a=" + b"x" * 1024 * 1024 + b"&b=1", CONTENT_TYPE=URLENCODED) == 413


@pytest.mark.parametrize(
    "question",
    [
        lambda req: req.args["missing"],
        lambda req: req.form["missing"],
        lambda req: req.files["missing"],
        lambda req: req.args.getfirst("n", 0, int),
        lambda req: req.args.getlist("n", int),
    ],
)
def test_a_missing_or_wrong_field_is_the_clients_fault(question):
    assert code_of(question, QUERY_STRING="n=five") == 400


def test_a_handler_may_look_after_a_missing_or_wrong_field():
    def question(req):
        with pytest.raises(KeyError):
            req.args["missing"]
        with pytest.raises(ValueError, match="the field 'n' has a wrong value: invalid literal"):
            req.args.getfirst("n", 0, int)

    ask(question, QUERY_STRING="n=five")


# JSON


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"]
)
def test_json(content_type):
    value = {"a": [1, "\u017e", None]}
    assert ask(lambda req: req.json, json.dumps(value, ensure_ascii=False).encode(), CONTENT_TYPE=content_type) == value
    assert ask(lambda req: req.json is req.json, b"[]", CONTENT_TYPE=content_type)


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"{}", "application/jsonx", 415),
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"NaN", "application/json", 400),
        (b"[-Infinity]", "application/json", 400),
        (b'"\xff"', "application/json", 400),
        (b"\xef\xbb\xbf{}", "application/json", 400),
        ('"a"'.encode("utf-16"), "application/json", 400),
        (b"[" * 200_000, "application/json", 400),
        (b"9" * 10_000, "application/json", 400),
        (b" " * 1024 * 1024 + b"1", "application/json", 413),
    ],
)
def test_what_is_no_json_is_refused(body, content_type, code):
    assert code_of(lambda req: req.json, body, CONTENT_TYPE=content_type) == code


# Cookies


@pytest.mark.parametrize(
    ("field", "cookies"),
    [
        ("a=1; b=2", {"a": "1", "b": "2"}),
        ("a=1;b=2;", {"a": "1", "b": "2"}),
        ("a=1; a=2", {"a": "1"}),
        ('a="x y"; b="', {"a": "x y", "b": '"'}),
        ("a=b=c==", {"a": "b=c=="}),
        ("a; =b; ;;c=", {"c": ""}),
        ("a=\xc5\xbe\xff", {"a": "\u017e\ufffd"}),
        ("", {}),
    ],
)
def test_cookies_of_a_request(field, cookies):
    assert ask(lambda req: req.cookies, HTTP_COOKIE=field) == cookies
    assert ask(lambda req: req.cookies is req.cookies)


def cookies_set(action, **environ):
    """The Set-Cookie fields of an answer whose handler does this."""
    sent = answer(lambda req: action(req) or http.DONE, environ=environ)
    assert sent.code < 500, sent.log
    return [value for name, value in sent.headers if name == "Set-Cookie"]


HTTPS = {"wsgi.url_scheme": "https", "HTTPS": "on"}


def test_a_cookie_is_safe_by_default():
    assert cookies_set(lambda req: req.set_cookie("a", "1")) == ["a=1; Path=/; HttpOnly; SameSite=Lax"]
    assert cookies_set(lambda req: req.set_cookie("a", "1"), **HTTPS) == ["a=1; Path=/; Secure; HttpOnly; SameSite=Lax"]
    assert cookies_set(lambda req: req.set_cookie("__Host-a", "1")) == [
        "__Host-a=1; Path=/; Secure; HttpOnly; SameSite=Lax"
    ]


def test_every_attribute_of_a_cookie():
    def action(req):
        req.set_cookie(
            "a", "1", max_age=60, path="/x", domain="example.com", secure=True, http_only=False, same_site="None"
        )

    assert cookies_set(action) == ["a=1; Path=/x; Domain=example.com; Max-Age=60; Secure; SameSite=None"]
    assert cookies_set(lambda req: req.delete_cookie("a")) == ["a=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]


def test_a_cookie_that_is_set_again_is_replaced():
    def action(req):
        req.err_headers_out.add("Set-Cookie", "foreign=1")
        for value in "1", "2":
            req.set_cookie("a", value)
        req.set_cookie("a", "3", path="/x")

    assert [each.partition(";")[0] for each in cookies_set(action)] == ["foreign=1", "a=2", "a=3"]


@pytest.mark.parametrize(
    "end",
    [lambda req: http.redirect(req, "/"), lambda req: http.abort(403), lambda req: http.abort(http.Response("x"))],
)
def test_a_cookie_survives_what_ends_the_handler(end):
    def action(req):
        req.set_cookie("a", "1")
        end(req)

    assert [each[:4] for each in cookies_set(action)] == ["a=1;"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": ""}, "no name of a cookie"),
        ({"name": "a b"}, "no name of a cookie"),
        ({"name": "a=b"}, "no name of a cookie"),
        ({"value": "a;b"}, "has ';' in it"),
        ({"value": "a b"}, "has ' ' in it, which no cookie can hold: encode it"),
        ({"value": "a\r\nSet-Cookie: b=1"}, "has '\\\\r' in it"),
        ({"value": "\u017e"}, "has '\u017e' in it"),
        ({"value": "x" * 4096}, "has 4097 bytes"),
        ({"path": "x"}, "begins with /"),
        ({"path": "/;x"}, "no semicolon"),
        ({"domain": "a b"}, "host name"),
        ({"same_site": "lax"}, "one of Strict, Lax, None"),
        ({"same_site": "None"}, "must be secure"),
        ({"name": "__Secure-a", "secure": False}, "must be secure"),
        ({"name": "__host-a", "domain": "example.com"}, "no domain"),
        ({"name": "__Host-a", "path": "/x"}, "path='/'"),
    ],
)
def test_a_cookie_that_browsers_would_refuse_or_misread(arguments, says):
    def action(req):
        with pytest.raises(ValueError, match=says):
            req.set_cookie(**{"name": "a", "value": "1", **arguments})

    assert cookies_set(action) == []


def test_a_cookie_is_text():
    def action(req):
        with pytest.raises(TypeError, match="are str, not int"):
            req.set_cookie("a", 1)

    assert cookies_set(action) == []


@given(st.text(), st.text())
def test_a_cookie_that_is_set_comes_back(name, value):
    def action(req):
        try:
            req.set_cookie(name, value)
        except ValueError:
            return

    for field in cookies_set(action):
        if not name.startswith("$"):  # which SimpleCookie takes for an attribute of RFC 2109
            (morsel,) = SimpleCookie(field).values()
            assert (morsel.key, morsel.value) == (name, value)
        assert ask(lambda req: req.cookies, HTTP_COOKIE=field.partition(";")[0]) == {name: value}


# Validators

OLD = 10**9
DATE = "Sun, 09 Sep 2001 01:46:40 GMT"


def conditional(method="GET", weak=False, etag="v1", modified=OLD, **fields):
    def handler(req):
        if etag:
            req.set_etag(etag, weak=weak)
        if modified is not None:
            req.set_last_modified(modified)
        if status := req.meets_conditions():
            return status
        return "page"

    return answer(handler, method=method, environ={f"HTTP_{name}": value for name, value in fields.items()})


@pytest.mark.parametrize(
    ("method", "fields", "code"),
    [
        ("GET", {}, 200),
        ("GET", {"IF_NONE_MATCH": '"v1"'}, 304),
        ("GET", {"IF_NONE_MATCH": 'W/"v1", "x"'}, 304),
        ("GET", {"IF_NONE_MATCH": '"v2"'}, 200),
        ("GET", {"IF_NONE_MATCH": "*"}, 304),
        ("GET", {"IF_NONE_MATCH": '"v2"', "IF_MODIFIED_SINCE": DATE}, 200),
        ("HEAD", {"IF_MODIFIED_SINCE": DATE}, 304),
        ("GET", {"IF_MODIFIED_SINCE": "Sat, 08 Sep 2001 01:46:40 GMT"}, 200),
        ("GET", {"IF_MODIFIED_SINCE": "yesterday"}, 200),
        ("POST", {"IF_MODIFIED_SINCE": DATE}, 200),
        ("PUT", {"IF_NONE_MATCH": "*"}, 412),
        ("PUT", {"IF_MATCH": '"v1"'}, 200),
        ("PUT", {"IF_MATCH": '"v2"'}, 412),
        ("PUT", {"IF_UNMODIFIED_SINCE": "Sat, 08 Sep 2001 01:46:40 GMT"}, 412),
        ("PUT", {"IF_UNMODIFIED_SINCE": DATE}, 200),
    ],
)
def test_conditions_of_a_request(method, fields, code):
    sent = conditional(method, **fields)
    assert sent.code == code
    if code != 412:
        assert (sent.header("ETag"), sent.header("Last-Modified")) == ('"v1"', DATE)
    if code == 304:
        assert sent.body == b"" and sent.header("Content-Type") is None


def test_a_weak_tag_is_no_strong_one():
    assert conditional("PUT", weak=True, IF_MATCH='W/"v1"').code == 412
    assert conditional(weak=True, IF_NONE_MATCH='"v1"').code == 304


def test_no_validators():
    assert conditional(etag="", modified=None, IF_NONE_MATCH='""', IF_MODIFIED_SINCE=DATE).code == 200
    assert conditional("PUT", etag="", modified=None, IF_MATCH='""').code == 412


def test_a_page_of_the_future_was_modified_now():
    assert conditional(modified=time.time() + 10**6).header("Last-Modified")[-3:] == "GMT"


@pytest.mark.parametrize("tag", ["", 'a"b', "a b", "\u017e", "a\n"])
def test_a_wrong_tag(tag):
    def handler(req):
        with pytest.raises(ValueError, match="an entity tag is of printable ASCII"):
            req.set_etag(tag)
        return "page"

    assert answer(handler).text == "page"


# Whatever a client sends

HOSTILE = st.text(st.sampled_from("a1=&%;,\"'<>/\\ \t+:-\xc5\xbe\xff")) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x>',
        "%3Cscript%3E",
        "a=1&a=2",
        "../../etc/passwd",
        "%00%0d%0aX: y",
        "*",
        '"v1"',
        DATE,
    ]
)
ACCESSES = {
    "args": lambda req: (req.args.getfirst("a"), req.args.keys()),
    "number": lambda req: req.args.getfirst("a", 0, int),
    "form": lambda req: (req.form.getlist("a"), req.form.keys()),
    "files": lambda req: req.files["a"],
    "storage": lambda req: http.FieldStorage(req, 1, 1).keys(),
    "json": lambda req: req.json,
    "cookies": lambda req: req.cookies.get("a", req.cookies),
    "conditions": lambda req: req.set_etag("v1") or req.set_last_modified(OLD) or req.meets_conditions(),
    "url": lambda req: (req.construct_url("/"), req.hostname),
    "back": lambda req: req.url_for("page", name="x", access="args"),
    "headers": lambda req: req.headers_in.items(),
}


@given(
    st.sampled_from(sorted(ACCESSES)),
    HOSTILE,
    HOSTILE,
    st.binary() | HOSTILE.map(lambda text: text.encode("latin-1")),
    st.sampled_from([URLENCODED, MULTIPART, "application/json", "multipart/form-data; boundary=<script>", "<script>"]),
    st.dictionaries(
        st.sampled_from(["COOKIE", "HOST", "IF_NONE_MATCH", "IF_MODIFIED_SINCE", "IF_MATCH", "USER_AGENT"]), HOSTILE
    ),
    st.booleans(),
)
def test_nothing_of_a_client_is_a_traceback_or_markup(access, path, query, body, content_type, fields, debug):
    def page(req, access, name):
        ACCESSES[access](req)
        return http.abort(http.HTTP_NOT_FOUND)

    app = application(table(handlers={"/<access:word>/<name>": (http.METHOD_ALL, page)}), debug=debug)
    environ = {f"HTTP_{name}": value for name, value in fields.items()}
    sent = call(app, f"/{access}/{path}", "POST", body, False, QUERY_STRING=query, CONTENT_TYPE=content_type, **environ)
    assert sent.code in (400, 404, 413, 415), sent.log
    assert "Traceback" not in sent.log and "Traceback" not in sent.text
    assert sent.log.count("\n") <= 1
    for markup in "<script", "<img", "alert(1)</":
        assert markup not in sent.text.partition("<body>")[2]
    assert all("\r" not in value and "\n" not in value for _, value in sent.headers)
