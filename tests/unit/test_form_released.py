"""What a form leaves behind: no open file, no reference that only the garbage collector ends, no long line in the log."""

import gc
import io
import os

import pytest
from dispatching import answer
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import multipart

MULTIPART = "multipart/form-data; boundary=b"
URLENCODED = "application/x-www-form-urlencoded"


def upload(filename, content):
    """A part with a file; filename: bytes."""
    head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="' + filename + b'"\r\n\r\n'
    return head + content + b"\r\n"


LARGE = upload(b"f", b"x" * (multipart.SPOOL + 1)) * 3
TEXT = b'--b\r\nContent-Disposition: form-data; name="t"\r\n\r\n'

REFUSED = {
    "cut": (LARGE, 400),
    "a wrong head": (LARGE + b"--b\r\nno colon\r\n\r\n", 400),
    "a large field": (LARGE + TEXT + b"x" * (1 << 20) + b"x\r\n--b--\r\n", 413),
    "many fields": (LARGE + (TEXT + b"\r\n") * 1000 + LARGE + b"--b--\r\n", 413),
    "many files": (LARGE + upload(b"", b"") * 100 + b"--b--\r\n", 413),
}
READERS = {
    "form": lambda req: req.form["t"],
    "files": lambda req: req.files["f"],
    "storage": lambda req: http.FieldStorage(req)["f"],
}


@pytest.fixture
def uncollected():
    """Without the garbage collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("body", "code"), REFUSED.values(), ids=REFUSED)
def test_a_form_that_is_refused_leaves_no_file_open(uncollected, body, code, reader):
    before = descriptors()
    sent = answer(reader, body=body, method="POST", environ={"CONTENT_TYPE": MULTIPART})
    assert sent.code == code
    del sent
    assert descriptors() == before


def test_a_handler_may_hold_the_error_of_a_form_and_no_file_stays_open():
    def handler(req):
        found = []
        for reader in READERS.values():
            with pytest.raises(http.FormError, match="ends before its last boundary") as caught:
                reader(req)
            found.append(caught.value)
        return f"{descriptors()} {[error.code for error in found]}"

    before = descriptors()
    assert answer(handler, body=LARGE, environ={"CONTENT_TYPE": MULTIPART}).text == f"{before} [400, 400, 400]"


def test_files_of_the_application_are_left_to_it():
    files = []

    def opened(name):
        files.append(io.BytesIO())
        return files[-1]

    sent = answer(
        lambda req: http.FieldStorage(req, file_callback=opened).keys(), body=LARGE, environ={"CONTENT_TYPE": MULTIPART}
    )
    assert sent.code == 400 and len(files) == 3 and not any(file.closed for file in files)


@pytest.mark.parametrize("query", ["a" * 50_000, "a=%" + "x" * 50_000, "a=" + "%FF" * 20_000, "n=" + "x" * 50_000])
def test_a_refusal_shows_no_more_than_the_start_of_a_field(query):
    def handler(req):
        http.FieldStorage(req, strict_parsing=1).getfirst("n", convert=float)

    sent = answer(handler, environ={"QUERY_STRING": query, "poorhttp.log_level": "debug"})
    assert sent.code == 400 and 0 < len(sent.log) < 1000


@given(st.binary(max_size=40) | st.text(st.sampled_from('./\\~\0%2fF"a;:\r\n\u202e')).map(str.encode))
def test_no_file_name_leads_to_another_directory(name):
    """Whatever a client calls its file: what the application gets names a file in the directory it is written to."""
    body = upload(name.replace(b'"', b"%22"), b"x") + b"--b--\r\n"
    found = []

    def handler(req):
        found.extend(field.filename for field in http.FieldStorage(req, 1).list)
        return "read"

    assert answer(handler, body=body, environ={"CONTENT_TYPE": MULTIPART}).code in (200, 400)
    for each in found:
        assert not set("/\\\0") & set(each) and each not in (".", "..")
        assert os.path.dirname(os.path.normpath(os.path.join("/uploads", each or "none"))) == "/uploads"
