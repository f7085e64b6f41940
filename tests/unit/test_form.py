"""FieldStorage: urlencoded and multipart forms, what is refused in them, and that memory stays bounded."""

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import multipart
from poorhttp.dispatch.form import FieldStorage
from poorhttp.dispatch.request import Request

BOUNDARY = "----boundary.1"
URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = f"multipart/form-data; boundary={BOUNDARY}"


class Dribble(io.BytesIO):
    """A body that arrives in pieces of a size that the test chose."""

    piece = 1 << 30

    def read(self, size=-1):
        return super().read(self.piece if size < 0 else min(size, self.piece))


def read_form(body=b"", content_type=URLENCODED, query="", piece=1 << 30, **settings):
    stream = Dribble(body)
    stream.piece = piece
    environ = {
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": "/",
        "QUERY_STRING": query,
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": stream,
        "wsgi.input_terminated": True,
    }
    return FieldStorage(Request(environ, lambda *_: lambda data: None, 65536), **settings)


def refused(code, body=b"", content_type=URLENCODED, **settings):
    with pytest.raises(http.FormError) as caught:
        read_form(body, content_type, **settings)
    assert caught.value.code == code
    return str(caught.value)


def code_of(body, content_type, **settings):
    """The status that reading this form gives."""
    try:
        read_form(body, content_type, **settings)
    except http.FormError as error:
        return error.code
    return 200


def part(name, value, *more, disposition=None):
    lines = [disposition or f'Content-Disposition: form-data; name="{name}"', *more]
    head = "\r\n".join(lines).encode()
    return b"--" + BOUNDARY.encode() + b"\r\n" + head + b"\r\n\r\n" + value + b"\r\n"


def upload(name, filename, value, *more):
    disposition = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"'
    return part(name, value, *more, disposition=disposition)


def closed(*parts):
    return b"".join(parts) + b"--" + BOUNDARY.encode() + b"--\r\n"


# urlencoded


def test_fields_of_the_query():
    form = read_form(query="a=1&b=%C5%BE+x&a=2")
    assert form.getfirst("a") == "1"
    assert form.getlist("a") == ["1", "2"]
    assert form.getvalue("a") == ["1", "2"]
    assert form.getvalue("b") == form["b"].value == "ž x"
    assert [field.value for field in form["a"]] == ["1", "2"]
    assert (form.keys(), list(form), len(form)) == (["a", "b"], ["a", "b"], 2)
    assert ("a" in form, "c" in form) == (True, False)
    assert form["b"].filename is None
    assert form["b"].file is None


def test_fields_of_the_body_come_first():
    assert read_form(b"a=body", query="a=query").getlist("a") == ["body", "query"]


def test_converters_and_defaults():
    form = read_form(query="n=5&n=6")
    assert form.getfirst("n", 0, int) == 5
    assert form.getlist("n", int) == [5, 6]
    assert form.getfirst("absent", "default", int) == "default"
    assert form.getlist("absent", int) == []
    assert form.getvalue("absent") is None
    with pytest.raises(KeyError):
        form["absent"]


def test_blank_values():
    assert read_form(query="a=&b&c=1").keys() == ["c"]
    kept = read_form(query="a=&b&c=1&&", keep_blank_values=1)
    assert [(field.name, field.value) for field in kept.list] == [("a", ""), ("b", ""), ("c", "1")]


@pytest.mark.parametrize("text", ["%", "%4", "%zz", "100%", "% 41", "%+1", "%-1"])
def test_wrong_escapes_are_kept_or_refused(text):
    assert read_form(query="a=" + text).getfirst("a") == text.replace("+", " ")
    refused(400, query="a=" + text, strict_parsing=1)


def test_escapes_are_decoded_once():
    assert read_form(query="a=%2541%26%3D%00%61").getfirst("a") == "%41&=\0a"


def test_text_that_is_not_utf8_is_replaced_or_refused():
    assert read_form(query="a=%FF").getfirst("a") == "\ufffd"
    refused(400, query="a=%FF", strict_parsing=1)


def test_a_field_without_equals_is_refused_by_strict_parsing():
    assert "b'b'" in refused(400, query="a=1&b", strict_parsing=1)


@pytest.mark.parametrize("separator", ["&", "a=1&", "a&"])
def test_too_many_fields(separator):
    refused(413, query=separator * 1001)
    refused(413, (separator * 1001).encode())


def test_too_many_fields_of_body_and_query_together():
    refused(413, b"a=1&a=2", query="a=3&a=4", max_fields=3)
    assert len(read_form(b"a=1&a=2", query="a=3&a=4", max_fields=4).list) == 4


def test_a_large_form_is_refused():
    refused(413, b"a=" + b"x" * 99, max_memory=100)
    assert len(read_form(b"a=" + b"x" * 98, max_memory=100).getfirst("a")) == 98


def test_other_bodies_are_left_unread():
    form = read_form(b'{"a": 1}', "application/json", query="b=1")
    assert form.keys() == ["b"]


@given(st.lists(st.tuples(st.text(), st.text(min_size=1))))
def test_what_the_standard_library_encodes_is_read(pairs):
    from urllib.parse import urlencode

    pairs = [
        (name.encode("utf-8", "replace").decode(), value.encode("utf-8", "replace").decode()) for name, value in pairs
    ]
    form = read_form(urlencode(pairs).encode(), strict_parsing=1)
    assert [(field.name, field.value) for field in form.list] == pairs


@given(st.binary())
def test_any_urlencoded_body_is_read_or_refused(body):
    read_form(body, keep_blank_values=1)
    assert code_of(body, URLENCODED, strict_parsing=1) in (200, 400)


# multipart


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 30])
def test_fields_and_files(piece):
    content = bytes(range(256)) * 300 + b"\r\n--not the boundary\r\n------boundary\r\n"
    body = closed(
        part("text", "ž\r\n".encode()),
        upload("file", "a.bin", content, "Content-Type: image/png"),
        part("empty", b""),
        upload("none", "", b""),
    )
    form = read_form(body, MULTIPART, "q=1", piece, keep_blank_values=1)
    assert form.keys() == ["text", "file", "empty", "none", "q"]
    assert form.getfirst("text") == "ž\r\n"
    file = form["file"]
    assert (file.filename, file.type) == ("a.bin", "image/png")
    assert file.file.read() == file.value == content
    assert form.getfirst("empty") == ""
    assert (form["none"].filename, form["none"].value) == ("", b"")
    for name in ("file", "none"):
        form[name].file.close()


def test_blank_parts_are_dropped_like_blank_fields():
    assert read_form(closed(part("a", b""), part("b", b"1")), MULTIPART).keys() == ["b"]


def test_preamble_and_epilogue_are_skipped():
    form = read_form(b"preamble\r\n" + closed(part("a", b"1")) + b"epilogue", MULTIPART)
    assert form.getlist("a") == ["1"]


def test_no_parts():
    assert len(read_form(closed(), MULTIPART)) == 0


def test_a_large_file_goes_to_a_temporary_file():
    content = random.Random(1).randbytes(multipart.SPOOL + 1)
    with read_form(closed(upload("f", "f", content)), MULTIPART)["f"].file as file:
        assert file.fileno() >= 0
        assert file.read() == content


def test_the_callback_gets_each_file_however_small():
    files = {}

    class Kept(io.BytesIO):
        pass

    def callback(filename):
        return files.setdefault(filename, Kept())

    body = closed(upload("f", "one", b"1"), upload("f", "two", b""), upload("f", "", b""), part("t", b"text"))
    form = read_form(body, MULTIPART, file_callback=callback)
    assert {name: file.getvalue() for name, file in files.items()} == {"one": b"1", "two": b""}
    assert form["f"][0].file is files["one"]


@pytest.mark.parametrize(
    ("sent", "known"),
    [
        ("a.txt", "a.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\\\Users\\\\x\\\\a.txt", "a.txt"),
        ("C:\\Users\\a.txt", "a.txt"),
        ("..", ""),
        ("a/..", ""),
        ("dir/", ""),
        ("a%22b.txt", 'a"b.txt'),
        ('a\\"b.txt', 'a"b.txt'),
        ("100%.txt", "100%.txt"),
        ("ž;=.txt", "ž;=.txt"),
        ("a\0b", "ab"),
    ],
)
def test_file_names_have_no_directories(sent, known):
    field = read_form(closed(upload("f", sent, b"x")), MULTIPART)["f"]
    assert field.filename == known
    field.file.close()


@pytest.mark.parametrize(
    "disposition",
    [
        "Content-Disposition: form-data; name=a",
        'content-disposition:form-data;name="a"',
        'Content-Disposition: FORM-DATA; Name="a" ; x=1;',
    ],
)
def test_dispositions(disposition):
    assert read_form(closed(part("", b"1", disposition=disposition)), MULTIPART).getfirst("a") == "1"


@pytest.mark.parametrize(
    "disposition",
    [
        "X: 1",
        "Content-Disposition: form-data",
        'Content-Disposition: attachment; name="a"',
        'Content-Disposition: form-data; name="a',
        'Content-Disposition: form-data; name="a"b',
        'Content-Disposition: form-data; name="a"; name="b"',
        'Content-Disposition: form-data; name="a"\r\nContent-Disposition: form-data; name="b"',
        'Content-Disposition : form-data; name="a"',
        'Content-Disposition: form-data;\r\n name="a"',
        'Content-Disposition: form-data; name="a"\r\nno colon',
        'Content-Disposition: form-data; name="a"\r\n: x',
        'Content-Disposition: form-data; name="a"; x="\n"',
        "Content-Disposition: form-data; name=a\nX: y",
        "Content-Disposition: form-data; name=a\r",
        'Content-Disposition: form-data; na me="a"',
        'Content-Disposition: form-data; name="a"\r\n' + "X: " + "x" * 9000,
    ],
)
def test_wrong_heads_of_parts_are_refused(disposition):
    refused(400, closed(part("", b"1", disposition=disposition)), MULTIPART)


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/form-data; boundary=" + "x" * 71,
        'multipart/form-data; boundary="a b"',
        "multipart/form-data; boundary=a\x00b",
        "multipart/form-data; boundary=\xe9",
        "multipart/form-data; boundary=a; boundary=b",
        'multipart/form-data; boundary="a',
    ],
)
def test_wrong_boundaries_are_refused(content_type):
    refused(400, b"--a\r\n", content_type)


def test_a_quoted_boundary():
    content_type = f'Multipart/Form-Data; charset=utf-8; boundary="{BOUNDARY}"'
    assert read_form(closed(part("a", b"1")), content_type).getfirst("a") == "1"


def test_a_body_that_ends_anywhere_is_refused():
    whole = closed(part("a", b"value"), part("b", b"other"))[:-2]
    assert len(read_form(whole, MULTIPART)) == 2
    for end in range(1, len(whole)):
        refused(400, whole[:end], MULTIPART)


def test_text_behind_a_boundary_is_refused():
    refused(400, closed(part("a", b"1")).replace(b"\r\nContent", b"x\r\nContent", 1), MULTIPART)
    assert len(read_form(closed(part("a", b"1")).replace(b"\r\nContent", b" \t\r\nContent", 1), MULTIPART)) == 1


def test_too_much_of_anything_is_refused(monkeypatch):
    refused(413, closed(part("a", b"x" * 101)), MULTIPART, max_memory=100)
    refused(413, closed(part("a", b"x" * 60), part("b", b"x" * 60)), MULTIPART, max_memory=100)
    refused(413, closed(*[part("a", b"1")] * 4), MULTIPART, max_fields=3)
    refused(413, closed(*[part("a", b"")] * 4), MULTIPART, max_fields=3)
    refused(400, b"x" * 9000 + closed(part("a", b"1")), MULTIPART)
    for lines in b"X-A: 1\r\n" * 1400, b"X-A: " + b"1" * 8200 + b"\r\n":
        refused(400, closed(part("a", b"1").replace(b"\r\n\r\n", b"\r\n" + lines + b"\r\n", 1)), MULTIPART)
    monkeypatch.setattr(multipart, "MAX_FILES", 2)
    refused(413, closed(*[upload("f", "", b"")] * 3), MULTIPART)


def test_the_buffer_stays_small():
    class Endless:
        """An upload without end; remembers the most that was asked for."""

        def __init__(self):
            self.start = upload("f", "f", b"")[:-2]
            self.given = 0

        def read(self, size):
            self.given += size
            if self.given > 50 * multipart.CHUNK:
                return b""
            data, self.start = (self.start or b"\r\n-" * (size // 3)), b""
            return data

    class Sink:
        largest = 0

        def write(self, data):
            self.largest = max(self.largest, len(data))

    sink, source = Sink(), Endless()
    parts = multipart.read_parts(source.read, MULTIPART, lambda name: sink, 100, bytes.decode)
    with pytest.raises(http.FormError):
        next(parts)
    assert sink.largest <= multipart.CHUNK + 100


@given(st.binary(max_size=300), st.sampled_from([1, 3, 1 << 30]))
def test_any_multipart_body_is_read_or_refused(noise, piece):
    for body in (noise, closed(part("a", noise)), part("a", b"1") + noise, noise + closed(part("a", b"1"))):
        assert code_of(body, MULTIPART, piece=piece) in (200, 400, 413)


@given(st.binary(max_size=300), st.sampled_from([1, 3, 1 << 30]))
def test_content_is_not_changed(content, piece):
    if BOUNDARY.encode() in content:
        return
    with read_form(closed(upload("f", "f", content)), MULTIPART, piece=piece)["f"].file as file:
        assert file.read() == content
