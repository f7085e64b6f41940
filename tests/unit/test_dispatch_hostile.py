"""What a client wrote, in a field of the answer: whichever way a handler puts it there, it stays a part of that field."""

import json
import re

from dispatching import answer, ask, call, table
from hypothesis import example, given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.dispatch.headers import is_token

# Letters of attacks: ends of lines and fields, what browsers skip, what they take for another character.
TEXT = st.text(
    st.sampled_from("a=;:,/\\?#@.%\r\n\t\0 \"'<>\x7f\x85\xa0\u017e\u2028\ud800") | st.characters(), max_size=20
)
HOSTILE = TEXT | st.sampled_from(["a\r\nX-Evil: 1", "a; Domain=evil.example", "//evil.example", "a\nSet-Cookie: b=1"])


def answered(**attributes):
    """A handler's way of ending with a Response."""
    return lambda req, name, value: http.Response(
        "x", **{key: made(name, value) if callable(made) else made for key, made in attributes.items()}
    )


def moved(req, name, value):
    req.headers_out["Location"] = value
    return http.HTTP_MOVED_TEMPORARILY


WAYS = {
    "headers_out.add": lambda req, name, value: req.headers_out.add(name, value),
    "headers_out": lambda req, name, value: req.headers_out.__setitem__(name, value),
    "err_headers_out": lambda req, name, value: req.err_headers_out.__setitem__(name, value),
    "content_type": lambda req, name, value: setattr(req, "content_type", value),
    "status": lambda req, name, value: setattr(req, "status", value),
    "cookie": lambda req, name, value: req.set_cookie(name, value),
    "path of a cookie": lambda req, name, value: req.set_cookie("a", "b", path=value),
    "domain of a cookie": lambda req, name, value: req.set_cookie("a", "b", domain=value),
    "same_site": lambda req, name, value: req.set_cookie("a", "b", same_site=value),
    "removed cookie": lambda req, name, value: req.delete_cookie(name, path=value),
    "etag": lambda req, name, value: req.set_etag(value),
    "redirect": lambda req, name, value: http.redirect(req, value),
    "page of a redirect": lambda req, name, value: http.redirect(req, "/", text=value),
    "Location": moved,
    "Response": answered(headers=lambda name, value: [(name, value)]),
    "mapping of a Response": answered(headers=lambda name, value: {name: value}),
    "type of a Response": answered(content_type=lambda name, value: value),
    "details": lambda req, name, value: http.abort(http.HTTP_NOT_FOUND, name, value),
}
OURS = {"content-type", "content-length", "set-cookie", "location", "etag", "vary"}


@given(st.sampled_from(sorted(WAYS)), HOSTILE, HOSTILE)
@example("cookie", "a", "b; Domain=evil.example")
@example("path of a cookie", "", "/; Secure")
def test_no_text_gets_out_of_its_field(way, name, value):
    """The answer has the fields that the handler set, or it is a 500 without them."""

    def handler(req):
        outcome = WAYS[way](req, name, value)
        return "x" if outcome is None else outcome

    sent = answer(handler, valid=False)
    assert sent.log.count("\n") == len(sent.log.splitlines())
    for known, text in sent.headers:
        assert is_token(known) and known.lower() in OURS | {name.lower()}
        assert not set("\r\n\0") & set(text)
        text.encode("latin-1")
        if known.lower() == "set-cookie" and "cookie" in way:
            attributes = [each.partition("=")[0] for each in text.split("; ")[1:]]
            assert len(attributes) == len(set(attributes)) == text.count(";")
            assert set(attributes) <= {"Path", "Domain", "Max-Age", "HttpOnly", "SameSite", "Secure"}
            assert "Secure" not in attributes or name.lower().startswith("__") or way == "same_site"
            assert ("Domain" in attributes) == (way == "domain of a cookie" and value != "")


def host_of(target):
    """Where a browser that got this Location from site.example would go (WHATWG URL standard, section 4.4)."""
    text = re.sub("[\t\r\n]", "", target.lstrip("".join(map(chr, range(33))))).replace("\\", "/")
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", text)
    if scheme is None:
        return text[2:].partition("/")[0] if text.startswith("//") else "site.example"
    return f"{scheme[1].lower()}:{text[scheme.end() :].lstrip('/').partition('/')[0]}"


URLS = st.lists(
    st.sampled_from(
        [
            "/",
            "//",
            "\\",
            "http:",
            "https:",
            "javascript:",
            "evil.example",
            "@",
            "?",
            "#",
            "..",
            "\t",
            "\r\n",
            " ",
            "%2f",
            "\u2028",
        ]
    )
    | st.text(max_size=3),
    max_size=6,
).map("".join)


@given(URLS)
def test_a_redirect_leaves_the_site_only_by_an_address_with_a_host(uri):
    sent = answer(lambda req: http.redirect(req, uri))
    target = sent.header("Location")
    if target is None:
        assert sent.code == 500
    elif not uri.lower().startswith(("http://", "https://")):
        assert host_of(target) == "site.example"


@given(HOSTILE.filter(str.isascii) | st.text(st.characters(max_codepoint=255)), st.sampled_from(["http", "https"]))
def test_a_constructed_url_has_one_host_and_the_path(host, scheme):
    url = ask(lambda req: req.construct_url("/x"), valid=False, HTTP_HOST=host, **{"wsgi.url_scheme": scheme})
    assert re.fullmatch(rf"{scheme}://[-.:\[\]\w]+/x", url, re.ASCII)


@given(st.text(st.characters(max_codepoint=255)))
def test_a_path_of_a_client_is_text_in_a_page_and_in_the_log(path):
    def handler(req):
        req.log_error(req.uri)
        return http.HTTP_FORBIDDEN

    sent = call(
        application(table(setreq=lambda req: req.log_error(req.uri), default_handler=handler)), path, valid=False
    )
    assert sent.code in (400, 403) and sent.log.count("\n") == len(sent.log.splitlines()) <= 2
    assert sent.text.count("<") == answer(lambda req: 403).text.count("<")


# JSON

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(st.characters()), each, max_size=3),
    max_leaves=5,
)
BODIES = (
    VALUES.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=30)
    | st.text(st.sampled_from('[]{}",:0123456789.eE+-\\udD8 truefalsn')).map(str.encode)
    | st.integers(1, 5000).map(lambda digits: b"[1." + b"9" * digits + b"e%d]" % digits)
)


@given(BODIES)
@example(b"1e999")
@example(b"[-1" + b"0" * 400 + b".0]")
@example(b'{"\\uD800": 1}')
@example(b'"\\udfff\\ud800"')
@example(b'"\\ud83d\\ude00 \\\\ud800"')
def test_json_that_is_read_can_be_sent_back(body):
    sent = answer(
        lambda req: {"value": req.json}, body=body, method="POST", environ={"CONTENT_TYPE": "application/json"}
    )
    assert sent.code in (200, 400) and "Traceback" not in sent.log
    if sent.code == 200:
        assert json.loads(sent.body) == {"value": json.loads(body)}
        text = answer(
            lambda req: json.dumps(req.json, ensure_ascii=False),
            body=body,
            environ={"CONTENT_TYPE": "application/json"},
        )
        assert text.code == 200 and json.loads(text.body) == json.loads(body)
