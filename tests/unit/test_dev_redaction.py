"""Error pages show no secret, neither in variables nor in text nor in source, and values without running their code."""

import re
import sys
import time

import pytest
from error_pages import HTML, body, raised
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.dev.page import problem, values
from poorhttp.dev.page.source import without_values
from poorhttp.pages import redaction

NAMES = [
    *("password", "SECRET_KEY", "api_token", "db_passwd", "AUTHORIZATION", "session_id", "sentry_dsn", "signature"),
    *("pwd", "pin", "card_pin", "PIN_2", "bearer", "auth", "session", "cookie", "csrf", "xsrf", "jwt", "otp", "sid"),
]


@given(st.sampled_from(NAMES), st.text("abcdefghijklmnop0123456789", min_size=12, max_size=30))
def test_no_value_of_a_secret_is_shown(name, value):
    value = f"q{value}"
    source = (
        f"def f({name}):\n"
        f"    settings = {{'{name}': {name}, 'deep': [{{'x_{name}': {name}}}]}}\n"
        f"    {name.lower()}_2 = '{value}'\n"
        f"    raise ValueError('wrong')\n"
        f"f(given)\n"
    )
    error = raised(source, given=value)
    environ = {
        "REQUEST_URI": f"/?{name}={value}&x=1",
        f"HTTP_X_{name.upper()}": value,
        "HTTP_AUTHORIZATION": f"Basic {value}",
        "HTTP_COOKIE": f"a={value}",
    }
    for accept in "text/html", "*/*", "application/json":
        _, text = body(error, HTTP_ACCEPT=accept, **environ)
        assert value not in text


@pytest.mark.parametrize(
    "text",
    [
        "cannot connect to postgres://user:{}@host/db",
        "redis://:{}@127.0.0.1:6379/0 is down",
        "https://user:{}/%@host:80/",
        "no answer for token={} today",
        "no answer for token = {}",
        "https://example.com/a?b=1&access_token={}&c=2",
        "Authorization: Bearer {}",
        "Authorization: Basic {}==",
        "[('a', 'b'), ('password', '{}')]",
        "{{'pwd': b'{}'}}",
        'pin = "{}"',
        "x-api-key: {}",
        "a token: {}, and more",
        "Authorization: Token {}",
        "Cookie: a=b; c={}",
        "https://{}@github.com/a",
        "cannot connect with password '{}'",
        "{{'name': 'password', 'value': '{}'}}",
        'password: str = "{}"',
        'SECRET_KEY: Final[str] = "{}"',
        'd["password"] = "{}"',
        'token += "{}"',
        'token = ("{}")',
        "secret='it\\'s {}'",
        'key = """{}"""',
    ],
)
def test_no_secret_is_shown_in_a_text(text):
    secret = "qwerty1uiop"
    text = text.format(secret)
    comment = "" if text.startswith(("no answer", "a token", "x-api", "Cookie")) else text  # in code it may be a name
    error = raised(f"def f(value):\n    # {comment}\n    raise ValueError(value)\nf(given)\n", given=text)
    environ = {
        "REQUEST_URI": f"/?next={'' if ' ' in text else text}",
        "HTTP_REFERER": f"http://localhost/?token={secret}&next={text}",
        "HTTP_X_THING": text,
    }
    for accept in "text/html", "*/*", "application/json":
        _, shown = body(error, HTTP_ACCEPT=accept, **environ)
        assert secret not in shown
        assert "***" in shown


@pytest.mark.parametrize(
    "source",
    [
        'SECRET_KEY = (\n    "{}"\n)',
        'PRIVATE_KEY = """-----BEGIN\n{}\n-----END"""',
        'DATABASES = {{"default": {{\n    "PASSWORD":\n        "{}",\n}}}}',
        "PASSWORD = \\\n    '{}'",
        'SECRET_KEY = dict().get("X_Y", "{}")',
        'SECRET_KEY = "abc" "{}"',
        'API_TOKENS = ["first", "{}"]',
        'password, user = "{}", "u"',
        'secret = f"{{len(str())}} {}"',
        "x = 'password={0}'",
        "x = f'token={0} of {{1}}'",
        'raise_ = ["no", "api_key: {0}"]',
    ],
)
def test_no_secret_is_shown_in_a_source_however_it_is_laid_out(source):
    secret = "qwerty1uiop"
    error = raised(f"{source.format(secret)}\nshown = 'in the source'\nundefined_name\n")
    _, text = body(error, **HTML)
    assert secret not in text and "***" in text
    assert "in the source" in text
    frame = problem.of(error)["sections"][0]["frames"][0]
    assert [number for number, _ in frame["source"]] == [*range(1, frame["line"] + 1)][-5:]


@pytest.mark.parametrize("source", ["exec('x = = f({}=1234)')\n", "x = f({}=1234) + 1\n"])
def test_marks_stand_beneath_a_line_of_which_nothing_is_hidden(source):
    """Elsewhere they would be displaced."""
    for name, line in ("given", "f(given=1234)"), ("password", "f(password=***)"):
        _, text = body(raised(source.format(name)))
        has_marks = name == "given" and ("exec" in source or sys.version_info >= (3, 11))
        assert line in text and bool(re.search(r"(?m)^ +[~^]+$", text)) is has_marks


def test_of_a_source_that_is_no_longer_python_the_lines_are_judged_alone():
    lines = ("token = 'qwerty1uiop'\n", "key = (\n", "'''\n")
    assert without_values(lines)[0] == "token = ***\n"


def test_a_name_in_a_query_is_decoded_before_it_is_judged():
    _, text = body(ValueError("wrong"), **{**HTML, "REQUEST_URI": "/?to%6ben=qwerty1uiop&a=b%20c"})
    assert "qwerty1uiop" not in text and "b%20c" in text


@pytest.mark.parametrize(
    "value",
    [
        ("password", "qwerty1uiop"),
        ["pin", "qwerty1uiop"],
        [("a", "b"), (b"authorization", b"qwerty1uiop")],
        {b"cookie": b"qwerty1uiop"},
        {"name": "password", "value": "qwerty1uiop"},
        {"value": "qwerty1uiop", "key": "password"},
        "x" * 80 + " postgres://user:qwerty1uiop" + "y" * 100 + "@host" + "z" * 200,
        b"x" * 170 + b" postgres://user:qwerty1uiop" + b"y" * 100 + b"@host",
    ],
    ids=str,
)
def test_no_secret_of_a_pair_or_at_a_cut_is_shown(value):
    _, text = body(raised("def f(value):\n    raise ValueError\nf(given)\n", given=value), **HTML)
    assert "qwerty1uiop" not in text


def test_what_is_no_secret_is_shown():
    for text in (
        "KeyError: 'name'",
        "PermissionError: 'a'",
        "opinion = 'free', spinning: 'top', mapping='m'",
        "http://localhost:8080/@user",
        "if token == other",
        "the key: it is lost",
        "KeyboardInterrupt: failed",
        "expected token 'end of print statement', got 'x'",
    ):
        assert redaction.without_secrets(text) == text
    for code in (
        "send(token=token, key=lambda x: x)",
        "signal.signal(signal.SIGTERM, 15)",
        "except: pass",
        'for key in ("a", "b"):',
        'session.get("name")',
        'def f(cookie: Cookie, authorization: str | None = None) -> "name":',
        'raise KeyError("x")',
    ):
        assert redaction.without_secrets(code, is_code=True) == code
    assert redaction.without_secrets("key = -123", is_code=True) == "key = ***"
    pair = "{'name': 'password', 'value': ***}"
    assert redaction.without_secrets(values.described({"name": "password", "value": "x"})) == pair


def test_hiding_secrets_takes_no_time():
    """Not even where a text was made to cost much: it is cut, and each pattern is bounded."""
    began = time.process_time()
    for text in (
        *("a", "key", "://a:", "a://b:", "a://", "token=", "bearer ", "'", '"""', "?key", 'pass"  ', "pin_", "key:"),
        *("key: ", "key: a[", "password ", "cookie:", '"key","a"', "key=(", "key: key: a =", " ", "1", "key\\"),
    ):
        redaction.without_secrets(text * 8000)
    assert time.process_time() - began < 5


def test_descriptions_call_nothing_of_the_authors():
    called = []

    class Loud:
        def __repr__(self):
            called.append(self)
            return "loud"

    class Words(dict):
        def __repr__(self):
            called.append(self)
            return "words"

        items = keys = __iter__ = __repr__

    error = raised(
        "def f(a, b, c, d):\n    raise ValueError\nf(*given)\n", given=(Loud(), [Loud()], {1: Loud()}, Words())
    )
    _, text = body(error, **HTML)
    assert not called
    assert "Loud&gt;" in text and "Words&gt;" in text
