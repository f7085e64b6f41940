"""Notations of the units, and that what they print is what they read."""

from urllib.parse import unquote_to_bytes

import pytest

from poorhttp.config.addresses import PORT, UNIX_PATH_LIMIT, Addresses, Host, Networks, split_port
from poorhttp.config.paths import Application, ControlSocket, Function, Path, split_application
from poorhttp.config.units import Bytes, Choice, Count, FieldValue, Names, Seconds, Switch
from poorhttp.config.urls import CheckPath, CheckPaths, EditorUrl, SendfileHeader, UrlPath, split_url, unescaped


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5.0), ("1.5", 1.5), ("250ms", 0.25), ("2m", 120.0), ("1H", 3600.0), ("0", 0.0), ("3s", 3.0)],
)
def test_seconds(text, value):
    assert Seconds().parse(text) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "nan", "inf", "1e3", "1_0", "5 s", "5d", ".", "1.2.3", "٣", "400000000", "9" * 5000, "5\n"]
)
def test_seconds_refused(text):
    with pytest.raises(ValueError, match="a time such as 5, "):
        Seconds().parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("none", ()),
        ("unix", ("unix",)),
        ("127.0.0.1, ::1", ("127.0.0.1", "::1")),
        ("10.0.0.0/8 fd00::/8,unix", ("10.0.0.0/8", "fd00::/8", "unix")),
        ("0.0.0.0/0", ("0.0.0.0/0",)),
        ("192.0.2.7/32", ("192.0.2.7/32",)),
    ],
)
def test_networks(text, value):
    assert Networks().parse(text) == value
    assert Networks().parse(Networks().show(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", ",", "*", "localhost", "10.0.0.0/33", "10.0.0.1/8", "::1/127", "10.0.0.0/", "10.0.0/8", "none, unix", "1/8",
     "10.0.0.0/-1", "::1%lo", "[::1]", "10.0.0.0/8/8", "\x00"],
)  # fmt: skip
def test_networks_refused(text):
    with pytest.raises(ValueError, match="or none"):
        Networks().parse(text)


NAMES = Names("one", "two", "three", also={"both": ("two", "three")})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", ()),
        ("ONE", ("one",)),
        ("three, two", ("two", "three")),
        ("both", ("two", "three")),
        ("two two", ("two",)),
    ],
)
def test_names(text, value):
    assert NAMES.parse(text) == value
    assert NAMES.parse(NAMES.show(value)) == value


@pytest.mark.parametrize("text", ["", ",", "four", "one, two", "one, no", "no, two", "one one", "yes"])
def test_names_refused(text):
    with pytest.raises(ValueError, match="no, one, or some of both, two, three"):
        NAMES.parse(text)


@pytest.mark.parametrize("text", ["", "/", "/health", "/a/b%20c", "/~x;y=1"])
def test_url_path(text):
    assert UrlPath().parse(text) == text


@pytest.mark.parametrize("text", ["health", "/a b", "/a?b", "/a#b", "/\xe9", "http://a/"])
def test_url_path_refused(text):
    with pytest.raises(ValueError, match="a path such as /status or /health"):
        UrlPath().parse(text)


@pytest.mark.parametrize("text", ["", "/", "/a/b%20c?d=e&f=/", "http://a/", "https://a.b:8/c?d", "https://[::1]/"])
def test_check_path(text):
    assert CheckPath().parse(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("a", "ftp://a/", "http:///", "://a/", "http://a:b/", "http://a:/", "https://a/ b", "/\xe9", "/#a"),
        *("http://[::1/", "http://::1]/", "http://::1/", "http://[a]/", "http://[]/", "http://[[::1]]/"),
    ],
)
def test_check_path_refused(text):
    with pytest.raises(ValueError, match=r"a path such as /, or a URL such as https://www\.example\.com/"):
        CheckPath().parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ()),
        ("/", ("/",)),
        ("/, /a?b=%2C", ("/", "/a?b=%2C")),
        ("/ http://a/,https://[::1]/b", ("/", "http://a/", "https://[::1]/b")),
    ],
)
def test_check_paths(text, value):
    assert CheckPaths().parse(text) == value
    assert CheckPaths().parse(CheckPaths().show(value)) == value


@pytest.mark.parametrize("text", ["a", "/, b", "/ ftp://a/", "/\xe9", "http://a:b/ /"])
def test_check_paths_refused(text):
    with pytest.raises(ValueError, match=r"a path such as /, or a URL such as https://www\.example\.com/"):
        CheckPaths().parse(text)


@pytest.mark.parametrize("path", ["/", "/a%20b/%C3%A9", "/%41%", "/%4", "/%zz%e9", "/%%41", "%2f%2F", "/%+1/% 1"])
def test_unescaped(path):
    assert unescaped(path) == unquote_to_bytes(path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/a?b=c://d/e", ("http", "", "/a?b=c://d/e")),
        ("https://a.b:8/c?d", ("https", "a.b:8", "/c?d")),
        ("http://a", ("http", "a", "/")),
    ],
)
def test_split_url(text, parts):
    assert split_url(text) == parts


@pytest.mark.parametrize("text", ["", "a:b", "a.b:c.d"])
def test_function(text):
    assert Function().parse(text) == text


@pytest.mark.parametrize("text", ["a", "a:", ":a", "a:b()", "a/b:c", "a b:c", "a:b:c"])
def test_function_refused(text):
    with pytest.raises(ValueError, match="module:function"):
        Function().parse(text)


@pytest.mark.parametrize(
    "text", ["", "vscode://file/{path}:{line}", "idea:{path}", "x-e.d+1://open?url=file://{path}&line={line}"]
)
def test_editor_url(text):
    assert EditorUrl().parse(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "vscode",
            "vscode://file",
            "{path}",
            "{path}:1",
            "://{path}",
            "1x:{path}",
            "vs code://{path}",
            "v\xe9:{path}",
        ),
        *("javascript:{path}", "JavaScript:'{path}'", "data:text/html,{path}", "DATA:{path}", "VBscript:{path}"),
        *(" javascript:{path}", "java\tscript:{path}", "vs:{path} ", "vs:{path}\x00", "vs:{path}\xe9", "-:{path}"),
    ],
)
def test_editor_url_refused(text):
    with pytest.raises(ValueError, match=r"a URL with \{path\} in it, such as vscode://file"):
        EditorUrl().parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", ""), ("X-Sendfile", "X-Sendfile"), ("X-Accel-Redirect  /files/", "X-Accel-Redirect /files")],
)
def test_sendfile_header(text, value):
    assert SendfileHeader().parse(text) == value
    assert SendfileHeader().parse(value) == value


@pytest.mark.parametrize(
    "text",
    [
        "X Sendfile",
        "X-Send:file",
        "/files",
        "X-Sendfile /a /b",
        "X-Sendfile a",
        "\xe9",
        "-",
        "Content-Length",
        "Location /a",
        "X-Accel-Redirect",
        "x-accel-redirect",
        "X-Accel-Redirect /",
    ],
)
def test_sendfile_header_refused(text):
    with pytest.raises(ValueError, match=r"X-Accel-Redirect|a path such as"):
        SendfileHeader().parse(text)


def test_seconds_that_must_not_be_zero():
    with pytest.raises(ValueError, match=r"at least 0\.001"):
        Seconds(0.001).parse("0")


@pytest.mark.parametrize(
    ("text", "value"), [("500", 500), ("8k", 8192), ("1.5m", 1572864), ("1G", 1 << 30), ("0", 0), ("64K", 65536)]
)
def test_bytes(text, value):
    assert Bytes().parse(text) == value


@pytest.mark.parametrize("text", ["", "k", "-5", "0.3", "5kb", "1t", "9" * 400, "0x10"])
def test_bytes_refused(text):
    with pytest.raises(ValueError, match="a size such as 500, 64k or 1m"):
        Bytes().parse(text)


def test_bytes_within_limits():
    with pytest.raises(ValueError, match="from 64 to 1k"):
        Bytes(64, 1024).parse("2k")


@pytest.mark.parametrize("text", ["", "-1", "1.0", "0x1", "٣", "65536", "9" * 5000, " 1", "+1"])
def test_count_refused(text):
    with pytest.raises(ValueError, match="a whole number from 0 to 65535"):
        PORT.parse(text)


@pytest.mark.parametrize(("text", "value"), [("yes", True), ("On", True), ("1", True), ("NO", False), ("false", False)])
def test_switch(text, value):
    assert Switch().parse(text) is value


def test_switch_refused():
    with pytest.raises(ValueError, match="yes or no"):
        Switch().parse("maybe")


def test_choice_knows_other_spellings():
    unit = Choice("crit", "debug", also={"critical": "crit", "7": "debug"})
    assert [unit.parse(text) for text in ("Crit", "CRITICAL", "7")] == ["crit", "crit", "debug"]
    with pytest.raises(ValueError, match="one of crit, debug"):
        unit.parse("loud")


@pytest.mark.parametrize("text", ["a\tb", "a\r\nX: y", "naïve", "\x7f"])
def test_field_value_refused(text):
    with pytest.raises(ValueError, match="printable ASCII text"):
        FieldValue().parse(text)


def test_field_value():
    assert [FieldValue().parse(text) for text in ("", "Poor Http (posix)")] == ["", "Poor Http (posix)"]


def test_path():
    assert Path().parse("a/b", "/dir") == "/dir/a/b"
    assert Path().parse("/a", "/dir") == "/a"
    assert Path(dash=True).parse("-", "/dir") == "-"
    assert Path().parse("-", "/dir") == "/dir/-"
    assert Path(empty=True).parse("", "/dir") == ""
    with pytest.raises(ValueError, match="the name of a file or -"):
        Path(dash=True).parse("", "/dir")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("simple:app", "simple:app"),
        ("simple", "simple"),
        ("pkg.wsgi:make()", "pkg.wsgi:make()"),
        ("simple.py", "{0}/simple.py"),
        ("simple.py:app", "{0}/simple.py:app"),
        ("./", "{0}"),
        (".", "{0}"),
        ("here", "here"),
        ("he-re", "{0}/he-re"),
        ("package:app", "{0}/package:app"),
        ("table", "{0}/table"),
        ("table:app", "table:app"),
        ("sub/x.py:a.b", "{0}/sub/x.py:a.b"),
        ("/x/y", "/x/y"),
        ("/a:b c/y.py", "/a:b c/y.py"),
    ],
)
def test_application(tmp_path, text, value):
    for name, file in ("here", "x.py"), ("he-re", "x.py"), ("package", "__init__.py"), ("table", "dispatch_table.py"):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    unit, expected = Application(), value.format(tmp_path)
    assert unit.parse(text, str(tmp_path)) == expected
    assert unit.parse(expected, "/elsewhere") == expected


def test_split_application():
    assert split_application("a:b") == ("a", "b")
    assert split_application("a:b.c()") == ("a", "b.c()")
    assert split_application("/dir:1/x.py") == ("/dir:1/x.py", "")
    assert split_application("a:") == ("a:", "")


def test_split_port():
    assert split_port("host:80") == ("host", "80")
    assert split_port("[::1]:80") == ("[::1]", "80")
    assert split_port("::1") == ("::1", None)
    assert split_port("[::1]") == ("[::1]", None)
    assert split_port("host") == ("host", None)


@pytest.mark.parametrize(("text", "value"), [("[::1]", "::1"), ("::1", "::1"), ("fe80::1%eth0", "fe80::1%eth0")])
def test_host(text, value):
    assert Host().parse(text) == value


@pytest.mark.parametrize("text", ["", "a b", "a/b", "höst", "unix:/x", "a@b", "[]"])
def test_host_refused(text):
    with pytest.raises(ValueError, match="a host name or an IP address"):
        Host().parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        (":8080", "0.0.0.0:8080"),
        ("[::1]:80, localhost:0", "[::1]:80, localhost:0"),
        ("unix:/run/x.sock  :1", "unix:/run/x.sock, 0.0.0.0:1"),
        ("unix:x.sock", "unix:/dir/x.sock"),
        ("", ""),
    ],
)
def test_addresses(text, shown):
    unit = Addresses()
    assert unit.show(unit.parse(text, "/dir")) == shown
    assert unit.show(unit.parse(shown, "/elsewhere")) == shown


@pytest.mark.parametrize("text", ["8080", "host", "::1:80", "host:99999", "host:", "a b:80", "unix:", "[::1]", "h:-1"])
def test_addresses_refused(text):
    with pytest.raises(ValueError, match="host:port, :port"):
        Addresses().parse(text, "/dir")


def test_address_twice():
    with pytest.raises(ValueError, match="a list in which each address stands once"):
        Addresses().parse(":80 0.0.0.0:80")


def test_unix_path_limit():
    unit, room = Addresses(), UNIX_PATH_LIMIT - len("/dir/")
    assert unit.parse(f"unix:{'x' * room}", "/dir")[0].path == f"/dir/{'x' * room}"
    with pytest.raises(ValueError, match=r"at most 107 bytes \(this one has 108\)"):
        unit.parse(f"unix:{'x' * (room + 1)}", "/dir")


@pytest.mark.parametrize(
    ("unit", "values"),
    [
        (Seconds(), [0.0, 0.001, 0.25, 1.5, 60.0, 86400.0, 0.333333]),
        (Bytes(), [0, 1, 500, 1023, 1024, 1025, 1 << 20, 3 << 30]),
        (Count(0, 10**9), [0, 7, 10**9]),
        (Switch(), [True, False]),
    ],
)
def test_what_is_shown_can_be_read(unit, values):
    assert [unit.parse(unit.show(value)) for value in values] == values


def test_a_log_may_be_a_program():
    unit = Path(dash=True, pipe=True)
    assert unit.parse("|rotatelogs 'a b' 5", "/etc") == "|rotatelogs 'a b' 5"
    assert unit.parse("|./rotate 'a b'", "/etc") == "|/etc/./rotate 'a b'"
    for text in ("|", "| ", "|sh -c 'x"):
        with pytest.raises(ValueError, match="a command after"):
            unit.parse(text)
    assert Path().parse("|x", "/etc") == "/etc/|x"


def test_addresses_without_a_host():
    unit = Addresses()
    found = unit.parse("fd:web, fd:3, unix:@name", "/etc")
    assert [(each.fd, each.path) for each in found] == [("web", ""), ("3", ""), ("", "@name")]
    assert unit.show(found) == "fd:web, fd:3, unix:@name"


@pytest.mark.parametrize("home", ["/home/me", "/home/me/"])
@pytest.mark.parametrize(
    "text", ["/home/me/control.sock", "/home/me/run/c.sock", "c.sock", "../me/c.sock", "/run/../home/me/c"]
)
def test_a_control_socket_is_not_in_the_home_directory(monkeypatch, home, text):
    monkeypatch.setenv("HOME", home)
    with pytest.raises(ValueError, match="outside of the home directory /home/me, such as"):
        ControlSocket().parse(text, "/home/me")


@pytest.mark.parametrize("home", ["/home/me", "/", ""])
def test_a_control_socket_is_an_absolute_path(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    assert ControlSocket().parse("", "/srv") == ""
    assert ControlSocket().parse("c.sock", "/srv/run") == "/srv/run/c.sock"
    assert ControlSocket().parse("/home/mean/c.sock") == "/home/mean/c.sock"
    for text in ("@name", "unix:/run/c.sock", "/run/", "/run/..", "/" + 200 * "x"):
        with pytest.raises(ValueError, match="path of a unix socket"):
            ControlSocket().parse(text, "/srv")
