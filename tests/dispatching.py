"""A dispatch table called as a server calls it, for the tests of poorhttp.dispatch: through wsgiref's validator."""

import io
import re
import types
import uuid
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

from poorhttp import http
from poorhttp.dispatch import application

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[[^\]]*\] \[[SACEWNID0]\] .*")
"""A line of the error log (poorhttp/dispatch/error_log.py)."""


class Sent:
    """What a server would have sent: the last head, and the body, also through write()."""

    def __init__(self):
        self.status = ""
        self.headers = []
        self.body = b""
        self.writes = 0
        self.log = ""

    def start_response(self, status, headers, exc_info=None):
        if exc_info is not None and self.writes:
            raise exc_info[1]
        assert not self.status or exc_info is not None
        self.status, self.headers = status, headers
        return self.write

    def write(self, data):
        self.writes += 1
        self.body += data

    def header(self, name):
        values = [value for known, value in self.headers if known.lower() == name.lower()]
        assert len(values) < 2, values
        return values[0] if values else None

    @property
    def code(self):
        return int(self.status.split()[0])

    @property
    def text(self):
        return self.body.decode("utf-8")


def call(app, path="/", method="GET", body=b"", valid=True, **environ):
    """Call `app` as a server does, through the validator unless `valid` is false."""
    env = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SCRIPT_NAME": "",
        "REMOTE_ADDR": "192.0.2.7",
    }
    setup_testing_defaults(env)
    log = io.StringIO()
    env.update({"wsgi.input": io.BytesIO(body), "wsgi.errors": log, "CONTENT_LENGTH": str(len(body))})
    env.update(environ)
    sent = Sent()
    try:
        result = (validator(app) if valid else app)(env, sent.start_response)
        try:
            for block in result:
                sent.body += block
        finally:
            if hasattr(result, "close"):
                result.close()
    finally:
        sent.log = log.getvalue()
    return sent


def table(handler=None, **names):
    """A table with one page at /, and `names` beside it."""
    made = types.SimpleNamespace(handlers={} if handler is None else {"/": (http.METHOD_ALL, handler)})
    vars(made).update(names)
    return made


def answer(handler, *, path="/", method="GET", body=b"", valid=True, settings=None, names=None, environ=None):
    """The answer of a table with this one handler."""
    app = application(table(handler, **(names or {})), **(settings or {}))
    return call(app, path, method, body, valid, **(environ or {}))


def write(text):
    """A handler that writes `text`."""

    def handler(req):
        req.write(text)
        return http.DONE

    return handler


def returns(outcome):
    return lambda req: outcome


def raises(error):
    def handler(req):
        raise error

    return handler


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


def shows(name):
    """A handler that writes `name` and the values that it was given."""

    def handler(req, *values):
        assert list(req.path_args.values()) == list(values)
        req.content_type = "text/plain"
        req.write(repr((name, *values)))
        return http.DONE

    handler.__name__ = name
    return handler


def routed(*patterns, **names):
    """An application whose handlers show by which pattern they were reached."""
    return application(table(handlers={each: (http.METHOD_GET, shows(each)) for each in patterns}, **names))


def reached(app, path):
    """(pattern, value, ...) of the handler that answered; None for 404."""
    sent = call(app, path.encode().decode("latin-1"))
    assert sent.code in (200, 404), sent.log
    return eval(sent.text, {"UUID": uuid.UUID}) if sent.code == 200 else None


def in_table(pattern, **names):
    return application(table(handlers={pattern: (http.METHOD_GET, lambda req, *values: http.DONE)}, **names))
