"""The listing of a directory: its rows, its order, its links; no name gets out of its place."""

import os
import re
import time
from pathlib import Path

import pytest
from dispatching import call, table
from documents import OLD, get
from hypothesis import given
from hypothesis import strategies as st

from poorhttp.dispatch import (
    application,
    listing,
)


def rows(sent):
    """The links of a listing with the texts of their rows."""
    return re.findall(
        r'<tr><td><a href="([^"]*)">(.*?)</a></td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>', sent.text
    )


def test_the_listing(listed):
    sent = get(listed, "/")
    assert (sent.code, sent.header("Content-Type")) == (200, "text/html; charset=utf-8")
    assert "<h1>Index of /</h1>" in sent.text
    assert re.findall(r"<th[^>]*><a href=\"([^\"]*)\">(.*?)</a>", sent.text) == [
        *(("?sort=-name", "Name"), ("?sort=modified", "Last Modified"), ("?sort=size", "Size"), ("?sort=type", "Type")),
    ]
    links = [row[0] for row in rows(sent)]
    assert links[:5] == ["a%26b%20%3Ci%3E/", "empty/", "in/", "pages/", "sub/"]
    assert {"a.txt", "absolute", "data.bin", "%FF.txt", "j%C3%A4ger.txt"} <= set(links)
    assert not {".secret", ".hidden/", "backup.txt~", "out", "up/", "private/", "pipe", "loop", "dangling"} & set(links)
    by_link = {row[0]: row for row in rows(sent)}
    shown = time.strftime("<span>%Y-%m-%d</span> %H:%M", time.localtime(OLD))
    size = '<span title="256000 bytes">250.0 KiB</span>'
    assert by_link["data.bin"][2:] == (shown, size, "application/octet-stream")
    assert by_link["sub/"][3:] == ("", "Directory")
    assert by_link["a.txt"][4] == "text/plain"
    assert get(listed, "/", "HEAD").body == b""


def test_every_link_of_the_listing_leads_to_its_file(listed):
    from urllib.parse import unquote_to_bytes

    for link, *_ in rows(get(listed, "/")):
        path = "/" + unquote_to_bytes(link).decode("latin-1")
        assert get(listed, path).code == 200, link


def test_the_listing_of_a_directory_below_leads_up(listed):
    assert [row[0] for row in rows(get(listed, "/sub/"))] == ["../", "deep/"]
    assert rows(get(listed, "/empty/"))[0][0] == "../"
    assert "<h1>Index of /a&amp;b &lt;i&gt;/</h1>" in get(listed, "/a&b <i>/").text
    mounted = call(listed, "/", SCRIPT_NAME="/shop")
    assert "<h1>Index of /shop/</h1>" in mounted.text and "../" not in mounted.text


def test_index_html_precedes_the_listing(listed):
    assert get(listed, "/pages/").body == b"<p>index"


@pytest.mark.parametrize(
    ("query", "links"),
    [
        ("", ["z/", "a.css", "b.png", "c.css"]),
        ("sort=-name", ["z/", "c.css", "b.png", "a.css"]),
        ("sort=size", ["z/", "c.css", "a.css", "b.png"]),
        ("sort=-size", ["z/", "b.png", "a.css", "c.css"]),
        ("x=y&sort=modified", ["z/", "b.png", "c.css", "a.css"]),
        ("sort=type", ["z/", "b.png", "a.css", "c.css"]),
        ("sort=<script>", ["z/", "a.css", "b.png", "c.css"]),
        ("sort=--name&sort", ["z/", "a.css", "b.png", "c.css"]),
    ],
)
def test_the_order_of_the_listing(tmp_path, query, links):
    (tmp_path / "z").mkdir()
    for number, (name, size) in enumerate([("b.png", 300), ("c.css", 1), ("a.css", 20)]):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (number, number))
    sent = call(application(table(), document=str(tmp_path), index=True), "/", QUERY_STRING=query)
    assert [row[0] for row in rows(sent)] == links
    assert "<script>" not in sent.text
    assert sent.text.count("<th aria-sort=") == 1


NAMES = (
    st.binary(min_size=1, max_size=30)
    .map(lambda name: re.sub(rb"[/\0]", b"-", name))
    .filter(lambda name: not name.startswith(b".") and not name.endswith(b"~") and name != b"index.html")
)


@given(
    st.lists(
        NAMES
        | st.sampled_from(
            [b"<script>", b'"onclick="', b"javascript:x", b"a&amp;b", b"\x1b[31m", "\u202efdp.exe".encode(), b"'"]
        ),
        max_size=4,
    )
)
def test_no_name_of_a_file_gets_out_of_its_place(tmp_path_factory, names):
    directory = tmp_path_factory.mktemp("names")
    for name in names:
        Path(os.fsdecode(os.fsencode(directory) + b"/" + name)).write_bytes(b"")
    app = application(table(), document=str(directory), index=True)
    sent = get(app, "/")
    found = rows(sent)
    assert len(found) == len(set(names)) == sent.text.count("<bdi>")
    for link, text, *_ in found:
        assert re.fullmatch(r"[A-Za-z0-9%._~-]+", link)
        assert not re.search(r"[<>\"'\x00-\x1f\u202e]", text.removeprefix("<bdi>").removesuffix("</bdi>"))
    assert sent.text.count("<a ") == len(found) + 4


def test_a_large_directory_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MOST", 5)
    for number in range(7):
        (tmp_path / str(number)).touch()
    sent = get(application(table(), document=str(tmp_path), index=True), "/")
    assert len(rows(sent)) == 5 and "only 5 entries of a directory are read" in sent.text


def test_hidden_and_refused_entries_count_for_the_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(listing, "MOST", 5)
    for number in range(4):
        (tmp_path / f".{number}").touch()
        (tmp_path / f"link{number}").symlink_to("/")
    sent = get(application(table(), document=str(tmp_path), index=True), "/")
    assert not rows(sent) and "only 5 entries of a directory are read" in sent.text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_for_people(size, text):
    assert listing._size(size) == text
