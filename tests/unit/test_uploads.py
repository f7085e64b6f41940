"""Files of clients: how they are saved, and sent back so that no browser shows them; names and queries of any text."""

import os
import re
import subprocess
import sys
from io import BytesIO
from urllib.parse import parse_qsl

import pytest
from dispatching import answer, call, table
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.http import parse_options_header

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.dispatch.disposition import attachment
from poorhttp.dispatch.field import Field
from poorhttp.dispatch.headers import checked_value
from poorhttp.dispatch.percent import query


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("report.pdf", 'attachment; filename="report.pdf"'),
        ("größe.txt", "attachment; filename=\"gr__e.txt\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.txt"),
        ("../../etc/passwd", 'attachment; filename="passwd"'),
        ("C:\\Users\\me\\a.txt", 'attachment; filename="a.txt"'),
        (
            'a"; filename=b.exe',
            "attachment; filename=\"a_; filename=b.exe\"; filename*=UTF-8''a%22%3B%20filename%3Db.exe",
        ),
        ("a%41.txt", "attachment; filename=\"a_41.txt\"; filename*=UTF-8''a%2541.txt"),
        ("a\r\nSet-Cookie: b.txt", 'attachment; filename="a__Set-Cookie: b.txt"'),
        ("photo\u202egpj.exe", 'attachment; filename="photo_gpj.exe"'),
        ("", 'attachment; filename="download"'),
        ("..", 'attachment; filename="download"'),
        (".htaccess", 'attachment; filename="htaccess"'),
        ("\ud800", 'attachment; filename="_"'),
        ("a" * 300 + ".txt", f'attachment; filename="{"a" * 146}.txt"'),
    ],
)
def test_the_name_of_a_download(name, field):
    assert attachment(name) == field


@given(st.text(st.characters(exclude_categories=[])))
def test_any_name_is_one_field_that_others_read_the_same(name):
    field = attachment(name)
    assert checked_value(field) == field and field.isascii()
    kind, options = parse_options_header(field)
    assert kind == "attachment" and options.keys() == {"filename"}
    read = options["filename"]
    assert read and "/" not in read and read not in (".", "..") and read.isprintable()
    if name and not set(name) & set("/\\ .") and name.isprintable() and len(name) <= 150:
        assert read == name


def test_an_upload_is_sent_back_to_be_saved(tmp_path):
    path = tmp_path / "1"
    path.write_text("<script>alert(1)</script>")
    sent = answer(lambda req: http.sendfile(req, str(path), download="page.html"))
    assert sent.header("Content-Disposition") == 'attachment; filename="page.html"'
    assert sent.header("X-Content-Type-Options") == "nosniff"
    assert sent.header("Content-Type") == "text/html" and sent.body == path.read_bytes()
    sent = answer(lambda req: http.sendfile(req, str(path), 3, 2, download=""))
    assert sent.header("Content-Disposition") == 'attachment; filename="download"' and sent.body == b"ri"
    assert answer(lambda req: http.sendfile(req, str(path))).header("Content-Disposition") is None
    sent = answer(lambda req: http.sendfile(req, str(tmp_path / "none"), download="a"))
    assert sent.code == 404 and sent.header("Content-Disposition") is None


def upload(handler, name="me.png", content=b"picture"):
    head = f'--x\r\nContent-Disposition: form-data; name="photo"; filename="{name}"\r\n\r\n'.encode()
    kind = {"CONTENT_TYPE": "multipart/form-data; boundary=x"}
    app = application(table(handler))
    return call(app, "/", "POST", head + content + b"\r\n--x--\r\n", **kind)


@pytest.mark.parametrize("content", [b"picture", b"x" * 3_000_000])
def test_an_upload_is_saved_whole(content, tmp_path):
    def save(req):
        photo = req.files["photo"]
        photo.save(tmp_path / "7")
        photo.save(f"{tmp_path}/8")
        length = len(photo.value)
        photo.file.close()
        return str(length)

    (tmp_path / "7").write_text("before")
    before = os.umask(0o022)
    try:
        assert upload(save, content=content).text == str(len(content))
    finally:
        os.umask(before)
    assert sorted(os.listdir(tmp_path)) == ["7", "8"]
    assert {each.read_bytes() for each in tmp_path.iterdir()} == {content}
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o644}


@pytest.mark.parametrize("name", ["me.png", ".bashrc", "dispatch_table.py"])
def test_the_name_of_a_client_is_no_path(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sent = upload(lambda req: req.files["photo"].save(req.files["photo"].filename), name)
    assert sent.code == 500 and f"save() takes an absolute path, not {name!r}" in sent.log
    assert not os.listdir(tmp_path)


def test_what_cannot_be_saved_leaves_what_was_there(tmp_path):
    class Torn(BytesIO):
        def read(self, size=-1):
            raise OSError("torn")

    (tmp_path / "a").write_text("before")
    with pytest.raises(OSError, match="torn"):
        Field("photo", filename="a", file=Torn()).save(f"{tmp_path}/a")
    with pytest.raises(IsADirectoryError, match=rf"directory: '{tmp_path}'$"):
        Field("photo", filename="a", file=BytesIO(b"1")).save(str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"directory: '{tmp_path}/none/a'$"):
        Field("photo", filename="a", file=BytesIO(b"1")).save(f"{tmp_path}/none/a")
    with pytest.raises(ValueError, match="'name' is no uploaded file"):
        Field("name", "text").save(f"{tmp_path}/a")
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "before"
    assert not [each for each in os.listdir(tmp_path.parent) if each.endswith(".part")]


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "precious").write_text("1")
    (tmp_path / "a").symlink_to("precious")
    Field("photo", filename="a", file=BytesIO(b"2")).save(f"{tmp_path}/a")
    assert (tmp_path / "precious").read_text() == "1" and not (tmp_path / "a").is_symlink()


# Queries


def test_a_path_with_a_query():
    def page(req, name):
        return req.url_for("page", {"q": "a b&c=é", "page": 2, "tag": ["x", 1.5]}, name="ž", **{})

    app = application(types_table({"/user/<name>": (http.METHOD_GET, page)}))
    address = call(app, "/user/a", SCRIPT_NAME="/site").text
    assert address == "/site/user/%C5%BE?q=a%20b%26c%3D%C3%A9&page=2&tag=x&tag=1.5"


def types_table(handlers):
    made = table()
    made.handlers = handlers
    return made


def test_a_parameter_may_have_any_name():
    def page(req, fields, target):
        return req.url_for(page, {}, fields="1", target="2")

    app = application(types_table({"/<fields>/<target>": (http.METHOD_GET, page)}))
    assert call(app, "/a/b").text == "/1/2"


@pytest.mark.parametrize("value", [None, True, b"x", {"a": 1}, [None]])
def test_other_values_in_a_query_are_refused(value):
    with pytest.raises(TypeError, match=re.escape("the field 'q' of the query is of type")):
        query({"q": value})


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_any_query_is_read_back(fields):
    text = query(fields)
    assert text.isascii() and not set(text) & set("\"'<>#+ \r\n")
    assert dict(parse_qsl(text, keep_blank_values=True)) == fields


def test_a_site_without_uploads_imports_none_of_this():
    code = "import sys, poorhttp.dispatch, poorhttp.http; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert not {"poorhttp.dispatch.disposition", "poorhttp.dispatch.whole_file"} & set(modules.split())
