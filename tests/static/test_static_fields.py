"""Fields of a request for a file: conditions, parts, and files that were compressed in advance."""

import os
import re
import time

import pytest
from dispatching import call
from documents import DATA, OLD, OLD_DATE, get
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.dispatch import (
    codings,
    ranges,
)

# Conditional requests


def test_validators(app, place):
    sent = get(app)
    assert (sent.header("ETag"), sent.header("Last-Modified")) == (f'"{OLD * 10**9:x}-{len(DATA):x}"', OLD_DATE)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"if_none_match": "{etag}"}, 304),
        ({"if_none_match": 'W/{etag}, "x"'}, 304),
        ({"if_none_match": '"x"'}, 200),
        ({"if_none_match": "*"}, 304),
        ({"if_modified_since": OLD_DATE}, 304),
        ({"if_modified_since": "Sun, 06 Nov 1994 08:49:36 GMT"}, 200),
        ({"if_modified_since": "nonsense"}, 200),
        ({"if_none_match": '"x"', "if_modified_since": OLD_DATE}, 200),
        ({"if_match": "{etag}"}, 200),
        ({"if_match": '"x"'}, 412),
        ({"if_unmodified_since": "Sun, 06 Nov 1994 08:49:36 GMT"}, 412),
        ({"if_none_match": "{etag}", "range": "bytes=0-1"}, 304),
    ],
)
def test_conditional_requests(app, fields, code):
    etag = get(app).header("ETag")
    for method in "GET", "HEAD":
        sent = get(app, method=method, **{name: value.format(etag=etag) for name, value in fields.items()})
        assert sent.code == code
        if code == 304:
            assert (sent.header("ETag"), sent.body, sent.header("Content-Type")) == (etag, b"", None)


# Parts


@pytest.mark.parametrize(
    ("field", "first", "end"),
    [
        *(("bytes=0-0", 0, 1), ("bytes=0-99", 0, 100), ("bytes=100-", 100, 256000), ("bytes=-5", 255995, 256000)),
        *(("bytes=255999-", 255999, 256000), ("bytes=10-999999999", 10, 256000), ("bytes=-999999999", 0, 256000)),
        *(("BYTES=1-2", 1, 3), ("bytes= 1-2 ,", 1, 3), ("bytes=0-9,5-19,20-29", 0, 30), ("bytes=0-9,256000-", 0, 10)),
        *((f"bytes=7-{'9' * 5000}", 7, 256000), ("bytes=0-199999", 0, 200000)),
    ],
)
def test_one_part(app, field, first, end):
    sent = get(app, range=field)
    assert (sent.code, sent.body) == (206, DATA[first:end])
    assert sent.header("Content-Range") == f"bytes {first}-{end - 1}/256000"
    assert sent.header("Content-Length") == str(end - first)
    assert sent.header("ETag") == get(app).header("ETag")


@pytest.mark.parametrize(
    "field",
    [
        *(
            "bytes=",
            "bytes=-",
            "bytes=x-",
            "bytes=1",
            "bytes=2-1",
            "bytes=--1",
            "bytes=+1-2",
            "bytes=1_0-20",
            "1-2",
            "",
        ),
        *("items=0-1", "bytes=0-1,x", "bytes=\u0661-2", "bytes=1-2-3", "bytes=,", "bytes=0 - 1"),
        "bytes=" + ",".join(f"{n * 10}-{n * 10 + 1}" for n in range(ranges.MOST + 1)),
        "bytes=" + "0-1," * 101,
        "bytes=" + "," * 100_000,
    ],
)
def test_a_range_that_is_no_range_is_ignored(app, field):
    sent = call(app, "/data.bin", valid=False, HTTP_RANGE=field)
    assert (sent.code, sent.body) == (200, DATA)


@pytest.mark.parametrize("field", ["bytes=256000-", "bytes=-0", f"bytes={'9' * 5000}-", "bytes=256000-,-0"])
def test_no_such_part(app, field):
    sent = get(app, range=field)
    assert (sent.code, sent.header("Content-Range")) == (416, "bytes */256000")
    assert get(app, method="HEAD", range=field).code == 200


def test_parts_of_an_empty_file(app):
    assert [get(app, "/void.txt", range=f"bytes={part}").code for part in ("0-", "-0", "-5", "0-0,-1")] == [
        416,
        416,
        200,
        200,
    ]


def parts_of(sent):
    """Content-Range and bytes of each part of a multipart answer, and its boundary."""
    kind, _, boundary = sent.header("Content-Type").partition("; boundary=")
    assert (sent.code, kind, sent.header("Content-Range")) == (206, "multipart/byteranges", None)
    assert sent.header("Content-Length") == str(len(sent.body))
    before, *parts, after = sent.body.split(b"\r\n--" + boundary.encode())
    assert (before, after) == (b"", b"--\r\n")
    heads = [part.split(b"\r\n\r\n", 1) for part in parts]
    return [(re.search(rb"Content-Range: bytes (\d+)-(\d+)/(\d+)$", head), body) for head, body in heads]


def test_several_parts(app):
    sent = get(app, range="bytes=500-599,-1,0-9")
    parts = parts_of(sent)
    assert [tuple(map(int, found.groups())) for found, _ in parts] == [
        *((500, 599, 256000), (255999, 255999, 256000), (0, 9, 256000)),
    ]
    assert [body for _, body in parts] == [DATA[500:600], DATA[-1:], DATA[:10]]
    assert b"Content-Type: application/octet-stream\r\n" in sent.body
    assert sent.header("ETag") == get(app).header("ETag")


@given(st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), min_size=1, max_size=40), st.integers(0, 100))
def test_parts_hold_what_was_asked_for_and_never_more_than_the_file(pairs, size):
    pairs = [(min(pair), max(pair)) for pair in pairs]
    parts = ranges.asked("bytes=" + ",".join(f"{first}-{last}" for first, last in pairs), size)
    wanted = {byte for first, last in pairs for byte in range(first, last + 1) if byte < size}
    if parts is None:
        assert len(wanted) > ranges.MOST
    else:
        given_ = [byte for first, end in parts for byte in range(first, end)]
        assert set(given_) == wanted and len(given_) == len(wanted) and len(parts) <= ranges.MOST


@given(st.text(max_size=60) | st.text("bytes=0123456789-, ", max_size=60), st.integers(0, 1000))
def test_any_range_is_understood_or_ignored(field, size):
    for text in field, f"bytes={field}":
        parts = ranges.asked(text, size)
        assert parts is None or all(0 <= first < end <= size for first, end in parts)


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("{etag}", 206),
        ("W/{etag}", 200),
        ('"x"', 200),
        (OLD_DATE, 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("", 200),
    ],
)
def test_if_range(app, field, code):
    etag = get(app).header("ETag")
    assert get(app, range="bytes=0-9", if_range=field.format(etag=etag)).code == code


def test_a_date_of_this_second_names_no_version(app, place):
    assert not ranges.applies("x", '"e"', "x", time.time())
    assert ranges.applies("x", '"e"', "x", time.time() - 5)
    assert not ranges.applies('W/"e"', 'W/"e"', "x", 0)


def test_a_file_that_becomes_shorter_ends_its_parts(place, tmp_path):
    (tmp_path / "x.bin").write_bytes(b"0123456789" * 10)
    descriptor = os.open(tmp_path / "x.bin", os.O_RDONLY)
    several = ranges.Multipart(descriptor, "text/plain", 100, [(0, 5), (50, 60)])
    os.truncate(tmp_path / "x.bin", 20)
    assert len(b"".join(several)) < several.size
    several.close()
    several.close()


# Compressed in advance


@pytest.mark.parametrize(
    ("field", "coding"),
    [
        *(
            ("gzip, deflate, br, zstd", "br"),
            ("gzip", "gzip"),
            ("gzip;q=1, br;q=0.5", "gzip"),
            ("br;q=0, gzip", "gzip"),
        ),
        *(("*", "br"), ("identity", None), ("", None), ("gzip;q=0", None), ("zstd", None), ("x-gzip", "gzip")),
        *(("*;q=0", None), ("gzip;q=x", None), (";;,=,gzip;q", None), ("*;q=0.1, br;q=0", "gzip")),
    ],
)
def test_the_client_gets_what_was_compressed_if_it_takes_it(app, place, field, coding):
    sent = get(app, "/page.html", accept_encoding=field)
    name = {"br": "page.html.br", "gzip": "page.html.gz", None: "page.html"}[coding]
    assert (sent.header("Content-Encoding"), sent.body) == (coding, (place / "www" / name).read_bytes())
    assert (sent.header("Vary"), sent.header("Content-Type")) == ("Accept-Encoding", "text/html; charset=utf-8")
    etag = sent.header("ETag")
    assert (etag == get(app, "/page.html").header("ETag")) == (coding is None)
    assert get(app, "/page.html", accept_encoding=field, if_none_match=etag).code == 304


def test_each_coding_has_a_tag_of_its_own(app):
    tags = {get(app, "/page.html", accept_encoding=coding).header("ETag") for coding in ("br", "gzip", "")}
    assert len(tags) == 3


def test_a_compressed_file_that_is_older_is_not_sent(app):
    sent = get(app, "/stale.js", accept_encoding="gzip")
    assert (sent.body, sent.header("Content-Encoding"), sent.header("Vary")) == (b"new", None, "Accept-Encoding")


def test_what_is_compressed_by_nature_is_not_looked_for(app):
    sent = get(app, accept_encoding="gzip")
    assert (sent.body, sent.header("Vary")) == (DATA, None)


def test_a_compressed_file_by_its_own_name(app):
    sent = get(app, "/page.html.gz", accept_encoding="gzip")
    assert (sent.header("Content-Type"), sent.header("Content-Encoding")) == ("application/gzip", None)


def test_parts_of_a_compressed_file(app, place):
    sent = get(app, "/page.html", accept_encoding="gzip", range="bytes=2-9")
    assert (sent.code, sent.body) == (206, (place / "www/page.html.gz").read_bytes()[2:10])
    assert sent.header("Content-Encoding") == "gzip"


def test_a_resumed_download_goes_on_in_the_coding_it_began_in(app, place):
    compressed = (place / "www/page.html.gz").read_bytes()
    plain, coded = (get(app, "/page.html", accept_encoding=coding).header("ETag") for coding in ("", "gzip"))
    rest = get(app, "/page.html", accept_encoding="gzip", range="bytes=10-", if_range=coded)
    assert (rest.code, rest.body, rest.header("ETag")) == (206, compressed[10:], coded)
    for accepted, tag in ("gzip", plain), ("", coded):
        whole = get(app, "/page.html", accept_encoding=accepted, range="bytes=10-", if_range=tag)
        assert (whole.code, whole.header("Content-Range")) == (200, None)


@given(st.text(max_size=100) | st.text("gzipbrstd;q=01., *", max_size=100))
def test_any_accept_encoding_is_read(field):
    assert set(codings.accepted(field)) <= set(codings.SUFFIXES)
