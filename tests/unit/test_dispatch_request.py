"""What a handler asks of a request and sets in its answer: query, form, files, JSON and validators."""

import io
import json
import time
from decimal import Decimal

import pytest
from dispatching import answer, ask, call, code_of, table
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


@pytest.mark.parametrize(("convert", "value"), [(Decimal, "x"), (lambda text: int(float(text)), "1e999")])
def test_arithmetic_that_fails_is_a_wrong_value(convert, value):
    assert code_of(lambda req: req.args.getfirst("n", 0, convert), QUERY_STRING=f"n={value}") == 400
    assert code_of(lambda req: req.args.getlist("n", convert), QUERY_STRING=f"n={value}") == 400


def test_get_gives_the_first_value_or_a_default():
    def question(req):
        photo = req.files.get("photo")
        with photo.file:
            return photo.filename, req.form.get("text"), req.form.get("none"), req.files.get("none", 1)

    assert ask(question, UPLOAD, CONTENT_TYPE=MULTIPART) == ("a.png", "mine", None, 1)
    assert ask(lambda req: req.args.get("a"), QUERY_STRING="a=1&a=2") == "1"
    assert ask(lambda req: http.FieldStorage(req).get("a"), QUERY_STRING="a=1&a=2") == "1"


@pytest.mark.parametrize(
    ("question", "body", "content_type", "says"),
    [
        (lambda req: req.form["photo"], UPLOAD, MULTIPART, "'photo' is missing: it is a file: req.files['photo']"),
        (lambda req: req.files["text"], UPLOAD, MULTIPART, "'text' is missing: it is a text: req.form['text']"),
        (lambda req: req.files["none"], UPLOAD, MULTIPART, "'none' is missing"),
        (lambda req: req.form["none"], b"a=1", URLENCODED, "'none' is missing"),
        *[
            (lambda req: req.files["a"], body, URLENCODED, 'write <form enctype="multipart/form-data">')
            for body in (b"a=me.png", b"a=", b"b=1")
        ],
    ],
)
def test_where_a_missing_field_is_to_be_found(question, body, content_type, says):
    def handler(req):
        with pytest.raises(http.MissingField) as caught:
            question(req)
        for each in req.files.list:
            each.file.close()
        return caught.value.reason()

    sent = answer(handler, method="POST", body=body, environ={"CONTENT_TYPE": content_type})
    assert sent.text.endswith(says)


@pytest.mark.parametrize(("body", "content_type"), [(b"a=1", URLENCODED), (UPLOAD, MULTIPART)])
@pytest.mark.parametrize("length", [-1, 2])
def test_a_form_whose_body_was_read_before_is_told(body, content_type, length):
    def handler(req):
        req.read(length)
        return req.form["a"]

    sent = answer(handler, method="POST", body=body, environ={"CONTENT_TYPE": content_type})
    assert sent.code == 500 and "RuntimeError: the form is gone: req.read() or other code has read its body" in sent.log
    sent = answer(handler, method="POST", environ={"CONTENT_TYPE": content_type})
    assert sent.code == 400  # nothing was lost


def test_a_form_that_breaks_off_stays_a_fault_of_the_client():
    def handler(req):
        with pytest.raises(http.SERVER_RETURN):
            req.form  # noqa: B018
        return req.form

    environ = {"CONTENT_TYPE": URLENCODED, "CONTENT_LENGTH": "100"}
    assert answer(handler, method="POST", body=b"a=1", environ=environ, valid=False).code == 408


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
