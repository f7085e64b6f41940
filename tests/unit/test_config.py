"""Command line, environment and ini file: what is read, what wins, what is refused and with which words."""

import pytest

import poorhttp
from poorhttp.config import printing, reading
from poorhttp.config.flags import parse_flags
from poorhttp.config.settings import SETTINGS
from poorhttp.errors import ConfigError


def read(*argv, environ=None, directory="/dir"):
    return reading.read(parse_flags(argv, str(directory)), environ or {}, str(directory))


@pytest.fixture
def ini(tmp_path):
    """Read an ini file of this text, with flags and variables beside it."""

    def read_ini(text, *argv, environ=None):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "my.ini").write_bytes(data)
        return read("-c", "my.ini", *argv, environ=environ, directory=tmp_path)

    return read_ini


def fault(call, *args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return f"{caught.value.message} | {caught.value.hint}"


# Command line


def test_defaults():
    settings = read()
    assert settings.application == "/dir"
    assert (settings.type, settings.processes, settings.threads) == ("single", 1, 1)
    assert [str(each) for each in settings.addresses] == ["127.0.0.1:8080"]
    assert (settings.keepalive_timeout, settings.max_head, settings.debug) == (15.0, 131072, False)
    assert (settings.errorlog, settings.accesslog, settings.pidfile) == ("-", "", "")
    assert settings.sources["port"] == "default"
    assert settings.notes == ()
    assert settings.directory == settings.import_directory == "/dir"


@pytest.mark.parametrize(
    "argv", [["--port", "9"], ["--port=9"], ["-a", "h:9"], ["--address=127.0.0.1:9"], ["--", "--port"], ["-ah:9"]]
)
def test_flags_with_values(argv):
    settings = read(*argv)
    assert settings.port == (8080 if "--" in argv else 9)


def test_a_log_program_may_be_written_in_python():
    assert read("--accesslog", "|python3 logger.py").accesslog == "|python3 logger.py"


def test_underscores_are_as_good_as_dashes():
    assert read("--log_level", "debug").log_level == "debug"


@pytest.mark.parametrize(
    ("argv", "debug"),
    [
        (["-d"], True),
        (["--debug"], True),
        (["--debug=no"], False),
        (["--no-debug"], False),
        (["-d", "--no-debug"], False),
    ],
)
def test_switches(argv, debug):
    assert read(*argv).debug is debug


def test_application_is_an_argument():
    settings = read("simple:app", "-d")
    assert (settings.application, settings.debug) == ("simple:app", True)
    assert settings.sources["application"] == "argument"
    assert read("check", "simple:app").sources["application"] == "argument of check"


def test_bind_is_repeatable_and_replaces_address_and_port():
    settings = read("-b", ":80", "--bind=[::1]:81", "-bunix:x.sock", "--port", "7")
    assert [str(each) for each in settings.addresses] == ["0.0.0.0:80", "[::1]:81", "unix:/dir/x.sock"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--prot", "9"], "unknown flag: '--prot' | did you mean --port?"),
        (["--daemon", "app"], "unknown flag: '--daemon' | poorhttp start serves in the background"),
        (["--host", "::", "app"], "unknown flag: '--host' | did you mean --address?"),
        (["--timeout=3"], "unknown flag: '--timeout' | did you mean --request-timeout?"),
        (["init", "a", "b"], "init takes one directory, and 'b' is a second one | poorhttp init [DIRECTORY]"),
        (["--no-port"], "unknown flag: '--no-port'"),
        (["-x"], "unknown flag: '-x' | poorhttp --help"),
        (["--port"], "--port needs a value | write --port PORT"),
        (["--port", "--debug"], "--port needs a value"),
        (["--port", "-1"], "flag --port: port must be a whole number from 0 to 65535, not '-1'"),
        (["--threads", "-2"], "flag --threads: threads must be a whole number from 0 to 1024, not '-2'"),
        (["--head-timeout", "-.5"], "flag --head-timeout: head_timeout must be a time"),
        (
            ["--debug", "yes", "app.py"],
            "--debug takes no value in a word of its own: 'yes' | write --debug, or --debug=yes",
        ),
        (["app.py", "-d", "Off"], "-d takes no value in a word of its own: 'Off' | write -d, or --debug=Off"),
        (["-c"], "-c needs a value | write -c FILE"),
        (
            ["app:app", "-c", ""],
            "flag --config must be the path of an ini file, not '' | leave the flag out for no file",
        ),
        (["start", "--config="], "flag --config must be the path of an ini file, not ''"),
        (["--version=2"], "'--version=2': this flag takes no value"),
        (["--no-debug=1"], "this flag takes no value"),
        (["-dx"], "debug must be yes or no, not 'x'"),
        (
            ["a:b", "c:d"],
            "two applications are named, 'a:b' and 'c:d' | poorhttp serves one: [APP] [options]",
        ),
        (["devv", "site1"], "two applications are named, 'devv' and 'site1' | did you mean dev?"),
        (
            ["dev", "check1", "site1"],
            "two applications are named, 'check1' and 'site1' | poorhttp serves one",
        ),
        (["--pidfile=x", "--errorlog=./x"], "pidfile and errorlog are the same path"),
        (["--pidfile=x", "--accesslog=x"], "pidfile and accesslog are the same path: /dir/x | choose another pidfile"),
        (["--pidfile=x", "-b", "unix:x"], "pidfile and bind are the same path: /dir/x | choose another pidfile"),
        (
            ["--control-socket=y", "-b", "unix:x", "-b", "unix:/dir/y"],
            "control_socket and bind are the same path: /dir/y",
        ),
        (["--errorlog=app.py"], "errorlog would be appended to /dir/app.py, which is no log | choose another errorlog"),
        (["--accesslog=/x.ini"], "accesslog would be appended to /x.ini, which is no log"),
        (
            ["--proxy-protocol", "--trusted-proxies=none"],
            "proxy_protocol is set, but trusted_proxies names no proxy | name the proxies",
        ),
        (["--control-socket=y", "--errorlog=y"], "control_socket and errorlog are the same path"),
        (
            ["--health=/up", "--status-path=/up"],
            "health and status_path are the same path: /up | choose another one",
        ),
        (["--port=x"], "flag --port: port must be a whole number from 0 to 65535, not 'x' | port: port to listen on"),
        (["--type=fork"], "type must be one of single, forking, threading, not 'fork' | did you mean forking?"),
        (["-b", "8080"], "bind must be host:port, :port, [::1]:port, unix:/path, unix:@name or fd:name"),
        (["--address=unix:/x"], "address must be a host name or an IP address (for a unix socket use bind)"),
        (["--address=h:1", "--port=2"], "address 'h:1' has a port, and port is set too"),
        (["--server-header=a\r\nX: y"], r"control characters in 'a\r\nX: y' | remove them"),
        (["--webmaster=\x1b[31m"], r"control characters in '\x1b[31m'"),
        (["--pidfile=a\x00b"], r"control characters in 'a\x00b'"),
        (["--head-timeout=0"], "head_timeout must be a time"),
        (["--application="], "application must be module:name, file.py or a directory"),
        (["start", "--check-config"], "--check-config is a second command, after start"),
        (["--print-config", "--print-nginx"], "--print-nginx is a second command, after print-config"),
        (["init", "--dump-config"], "--dump-config is a second command, after init"),
    ],
)
def test_faults_of_the_command_line(argv, words):
    assert words in fault(read, *argv)


def test_long_values_are_cut_in_messages():
    assert len(fault(read, f"--port={'9' * 5000}")) < 300


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        ([], ""),
        (["-h"], "help"),
        (["--version"], "version"),
        (["-v"], "version"),
        (["--check-config"], "check_config"),
        (["dev", "--print-config"], "print_config"),
        (["reload", "--version"], "version"),
        (["--help", "--print-config"], "help"),
    ],
)
def test_commands(argv, command):
    assert parse_flags(argv, "/").command == command


# Precedence


def test_flag_then_variable_then_ini_then_default(ini):
    text = "[http]\nport = 1\nbacklog = 2\nthreads = 3\n"
    settings = ini(text, "--port=10", environ={"POORHTTP_PORT": "20", "POORHTTP_BACKLOG": "21", "PORT": "5"})
    assert (settings.port, settings.backlog, settings.threads, settings.max_fields) == (10, 21, 3, 200)
    sources = [settings.sources[name] for name in ("port", "backlog", "threads", "max_fields")]
    assert sources == ["flag --port", "POORHTTP_BACKLOG", "my.ini:4", "default"]


def test_a_stronger_port_beats_a_weaker_bind(ini):
    text = "[http]\nbind = :1, :2\n"
    assert [str(each) for each in ini(text).addresses] == ["0.0.0.0:1", "0.0.0.0:2"]
    assert [str(each) for each in ini(text, "--port=9").addresses] == ["127.0.0.1:9"]
    assert [str(each) for each in ini(text, environ={"POORHTTP_ADDRESS": "h:3"}).addresses] == ["h:3"]


def test_a_stronger_port_beats_the_port_of_a_weaker_address(ini):
    assert [str(each) for each in ini("[http]\naddress = h:1\n", "--port=9").addresses] == ["h:9"]


def test_every_given_value_is_checked_though_another_wins(ini):
    assert "my.ini:2: port must be" in fault(ini, "[http]\nport = x\n", "--port=1")


@pytest.mark.parametrize(
    ("argv", "shape"),
    [
        (["--type=single"], (1, 1)),
        (["--type=forking"], (4, 1)),
        (["--type=threading"], (1, 16)),
        (["--type=forking", "--processes=2", "--threads=4"], (2, 4)),
        (["--threads=4"], (1, 4)),
    ],
)
def test_shapes(argv, shape):
    settings = read(*argv)
    assert (settings.processes, settings.threads) == shape


def test_unknown_variable():
    said = fault(read, environ={"POORHTTP_PROT": "1"})
    assert said == "unknown variable: 'POORHTTP_PROT' | did you mean POORHTTP_PORT?"
    assert "did you mean POORHTTP_PORT?" in fault(read, environ={"POORHTTP_port": "1"})
    assert read(environ={"POORHTTP_RELOAD_GENERATION": "3"}).notes == ()


@pytest.mark.parametrize("variable", ["POORHTTP_HOME", "POORHTTP_SERVICE_HOST", "POORHTTP_PORT_80_TCP", "POORHTTP_"])
def test_a_variable_of_somebody_else_is_noted(variable):
    assert read(environ={variable: "1"}).notes == (f"the variable {variable} is no setting; not used",)


# Ini file


def test_sections_and_syntax(ini):
    text = b"""\xef\xbb\xbf# a comment\r
[http]\r
Port: 81\r
; another
webmaster=a = b: c
accesslog =

[application]
Greeting = Ahoj  svete
empty =
[environ]
poor_Debug = On
X = a:b=c
"""
    settings = ini(text)
    assert (settings.port, settings.webmaster, settings.accesslog) == (81, "a = b: c", "")
    assert settings.options == {"greeting": "Ahoj  svete", "empty": ""}
    assert settings.environ == {"poor_Debug": "On", "X": "a:b=c"}


def test_paths_are_relative_to_the_file_that_names_them(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/my.ini").write_text("[http]\npidfile = run.pid\nerrorlog = e.log\napplication = x.py\n")
    settings = read("-c", "conf/my.ini", "--accesslog=a.log", environ={"POORHTTP_ERRORLOG": "e"}, directory=tmp_path)
    assert settings.pidfile == f"{tmp_path}/conf/run.pid"
    assert settings.accesslog == f"{tmp_path}/a.log"
    assert settings.errorlog == f"{tmp_path}/e"
    assert settings.application == f"{tmp_path}/conf/x.py"
    assert settings.directory == settings.import_directory == f"{tmp_path}/conf"


def test_a_module_is_looked_for_where_it_was_named(ini, tmp_path):
    assert ini("[http]\n", "simple:app").import_directory == str(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/my.ini").write_text("[http]\napplication = x:y\n")
    both = read("-c", "conf/my.ini", "simple:app", directory=tmp_path)
    assert (both.directory, both.import_directory) == (f"{tmp_path}/conf", str(tmp_path))
    assert read("-c", "conf/my.ini", directory=tmp_path).import_directory == f"{tmp_path}/conf"
    (tmp_path / "conf/my.ini").write_text("")
    assert read("-c", "conf/my.ini", directory=tmp_path).application == f"{tmp_path}/conf"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[http]\nadress = x\n", "my.ini:2: unknown key in [http]: 'adress' | did you mean address?"),
        ("[http]\nworkers = 4\n", "my.ini:2: unknown key in [http]: 'workers' | did you mean processes?"),
        ("[http]\nlogfile = x\n", "my.ini:2: unknown key in [http]: 'logfile' | did you mean errorlog?"),
        ("[htpp]\n", "my.ini:1: unknown section: '[htpp]' | did you mean [http]?"),
        ("[http\n", "my.ini:1: unknown section: '[http' | did you mean [http]?"),
        ("port = 1\n", "my.ini:1: expected a section such as [http] before 'port = 1'"),
        ("[http]\nport\n", "my.ini:2: expected `key = value` instead of 'port' | a comment begins with #"),
        ("[http]\nport 8080\n", "my.ini:2: expected `key = value` instead of 'port 8080' | write port = 8080"),
        ("[http]\nthe port\n", "my.ini:2: expected `key = value` instead of 'the port' | a comment begins with #"),
        ("[http]\n= 1\n", "my.ini:2: expected `key = value`"),
        ("[http]\nport = 1\n  2\n", "my.ini:3: an indented line"),
        ("[http]\nport = 1\nport = 2\n", "my.ini:3: port is set already at my.ini:2"),
        ("[http]\nport = 1\nPORT = 2\n", "my.ini:3: port is set already at my.ini:2"),
        ("[http]\nbind = :1\nbind = :2\n", "set already at my.ini:2 | write both into one line, separated by a comma"),
        ("[http]\npidfile = a\n[daemon]\npidfile = b\n", "my.ini:4: pidfile is set already at my.ini:2"),
        ("[environ]\nA = 1\nA = 2\n", "my.ini:3: A is set already at my.ini:2"),
        (
            "[http]\nport = 80 ; the port\n",
            "my.ini:2: port must be a whole number from 0 to 65535, not '80 ; the port'",
        ),
        ("[http]\nport = 80 # the port\n", "a comment has a line of its own"),
        ("[http]\nwebmaster = a\x07b\n", r"my.ini:2: webmaster: control characters in 'a\x07b'"),
        ("[environ]\nA\x00B = 1\n", r"my.ini:2: control characters in 'A\x00B'"),
        ("[environ]\nA = \x9b31m\n", r"my.ini:2: A: control characters in '\x9b31m'"),
        ("[application]\na = x\x0by\n", r"my.ini:2: a: control characters in 'x\x0by'"),
        ("[environ]\nwsgi.input = 1\n", "my.ini:2: [environ] cannot set 'wsgi.input'"),
        ("[environ]\npoorhttp.debug = 1\n", "my.ini:2: [environ] cannot set 'poorhttp.debug'"),
        ("[environ]\nSERVER_NAME = a\n", "my.ini:2: [environ] cannot set SERVER_NAME"),
        ("[environ]\nHTTP_X_FOO = a\n", "my.ini:2: [environ] cannot set HTTP_X_FOO"),
        (b"[http]\nwebmaster = \xff\n", "my.ini:2: not UTF-8 text"),
        ("[http]\nsocket_mode = rw\n", "my.ini:2: socket_mode must be three octal digits such as 660, not 'rw'"),
        ("[logging]\nlevels = 1\n", "my.ini:2: unknown key in [logging]: 'levels'"),
        (b"#" * (2 << 20), "is larger than 1048576 bytes"),
    ],
)
def test_faults_of_the_ini_file(ini, text, words):
    assert words in fault(ini, text)


def test_missing_ini_file(tmp_path):
    said = fault(read, "-c", "none.ini", directory=tmp_path)
    assert said.startswith(f"cannot read {tmp_path}/none.ini: No such file or directory | poorhttp --dump-config")


def test_an_ini_file_that_is_there_and_cannot_be_read(tmp_path, monkeypatch):
    """Nothing is to be written over it."""
    assert fault(read, "-c", ".", directory=tmp_path).endswith(": Is a directory | name the ini file in it")

    def denied(path, *mode):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("poorhttp.config.ini.open", denied, raising=False)
    said = fault(read, "-c", "my.ini", directory=tmp_path)
    assert said.endswith("my.ini: Permission denied | is the path right, and may this user read it?")


def test_poor_http_2010(ini, tmp_path):
    settings = ini(
        """[http]
port = 8080
address = 0.0.0.0
pidfile = poorhttp.pid
type = forking
secret = $deed
memcache = 127.0.0.1:11211
debug = True
webmaster = root@localhost
errorlog = error.log
log_level = 7
application = ./
document_root = ./www
[mime-type]
html = text/html
[application]
Database = x
"""
    )
    assert (settings.type, settings.debug, settings.log_level, settings.processes) == ("forking", True, "debug", 4)
    assert settings.errorlog == f"{tmp_path}/error.log"
    assert settings.options == {"database": "x"}
    assert settings.notes == (
        "my.ini:6: secret is not used",
        "my.ini:7: memcache is not used",
    )
    assert (settings.document, settings.mime_types) == (f"{tmp_path}/./www", {"html": "text/html"})


def test_files(ini, tmp_path):
    settings = ini("[http]\ndocument = www\nindex = yes\n[mime-type]\nBlend = application/x-blender; a=b\n")
    assert (settings.document, settings.index, settings.follow_symlinks) == (f"{tmp_path}/www", True, False)
    assert settings.mime_types == {"blend": "application/x-blender; a=b"}
    assert not settings.notes


def test_what_means_nothing_without_a_document_root(ini):
    settings = ini("[http]\nindex = yes\nfollow_symlinks = yes\n[mime-type]\nx = text/x\n")
    said = [f"{name} means nothing without document" for name in ("index", "follow_symlinks", "section [mime-type]")]
    assert settings.notes == tuple(said)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (".txt = text/plain", "expected the ending of a file name, without a dot, not '.txt'"),
        ("tar.gz = text/plain", "not 'tar.gz'"),
        ("txt =", "expected a media type for txt, not ''"),
        ("txt = text", "not 'text'"),
        ("txt = text/", "not 'text/'"),
        ("txt = text/pl ain", "not 'text/pl ain'"),
        ("txt = text/plain; name=\u00fc", "not 'text/plain; name=\u00fc'"),
        ("txt = a/b/c", "an entry of [mime-type] is such as: txt = text/plain"),
    ],
)
def test_media_types_that_are_none(tmp_path, line, says):
    (tmp_path / "my.ini").write_text(f"[mime-type]\n{line}\n")
    said = fault(read, "-c", "my.ini", directory=tmp_path)
    assert said.startswith("my.ini:2: expected ") and says in said


def test_poor_http_1(ini, tmp_path):
    settings = ini(
        """[daemon]
pidfile = run.pid
user = www-data
[logging]
level = WARNING
accesslog = access.log
format = %s
[python]
module = simple.py
optimize = 1
debug = no
"""
    )
    assert (settings.pidfile, settings.log_level) == (f"{tmp_path}/run.pid", "warning")
    assert settings.user == "www-data"
    assert (settings.application, settings.debug) == (f"{tmp_path}/simple.py", False)
    assert settings.notes == (
        "my.ini:2: pidfile of [daemon] is an old name; now it is pidfile in [http]",
        "my.ini:3: user of [daemon] is an old name; now it is user in [http]",
        "my.ini:5: level of [logging] is an old name; now it is log_level in [http]",
        "my.ini:6: accesslog of [logging] is an old name; now it is accesslog in [http]",
        "my.ini:7: format is not used",
        "my.ini:9: module of [python] is an old name; now it is application in [http]",
        "my.ini:10: optimize is not used",
        "my.ini:11: debug of [python] is an old name; now it is debug in [http]",
    )


@pytest.mark.parametrize(
    ("argv", "values"),
    [
        ([], (False, False, 60.0, 30.0)),
        (["--reload"], (True, False, 60.0, 30.0)),
        (["--reload", "--no-reload"], (False, False, 60.0, 30.0)),
        (["dev"], (True, True, 0.0, 5.0)),
        (["dev", "app.py", "--no-debug", "--request-timeout=7"], (True, False, 7.0, 5.0)),
    ],
)
def test_development(argv, values):
    settings = read(*argv)
    assert (settings.autoreload, settings.debug, settings.request_timeout, settings.graceful_timeout) == values


def test_dev_is_a_word_only_before_the_application():
    assert read("dev", "app").application == "app"
    assert parse_flags(["dev", "app"], "/dir").command == "dev"
    assert read("./dev").autoreload is False
    assert parse_flags(["dev", "--help"], "/dir").command == "help"
    with pytest.raises(ConfigError, match="--live and --public are for dev"):
        read("--public")
    assert read("dev").sources["graceful_timeout"] == "default of dev"


def test_dev_is_stronger_than_an_ini_file_for_elsewhere(ini):
    text = "[http]\nautoreload = no\ndebug = no\ngraceful_timeout = 7\n"
    settings = ini(text, "dev", environ={"POORHTTP_DEBUG": "no"})
    assert (settings.autoreload, settings.debug, settings.graceful_timeout) == (True, True, 7.0)
    assert settings.sources["debug"] == "command dev"
    printed = ini(text, "dev", "--print-config")
    assert (printed.autoreload, printed.debug, printed.request_timeout) == (True, True, 0.0)
    settings = ini(text.replace("no", "yes"), "dev", "--no-autoreload", "--no-debug")
    assert (settings.autoreload, settings.debug) == (False, False)


# From code


def test_keywords(tmp_path):
    settings = reading.from_keywords(
        {
            "type": "threading",
            "address": "127.0.0.1:9",
            "request_timeout": 2.5,
            "debug": True,
            "max_body": 1 << 20,
            "options": {"a": 1},
            "environ": {"B": "c"},
        },
        {"POORHTTP_BACKLOG": "7"},
        str(tmp_path),
    )
    assert (settings.port, settings.threads, settings.request_timeout, settings.debug) == (9, 16, 2.5, True)
    assert (settings.max_body, settings.backlog, settings.options, settings.environ) == (
        1 << 20,
        7,
        {"a": "1"},
        {"B": "c"},
    )
    assert settings.sources["debug"] == "run(debug=...)"


def test_keywords_with_lists_and_an_ini_file(tmp_path):
    (tmp_path / "my.ini").write_text("[http]\nport = 1\nbacklog = 3\n[application]\na = 1\nb = 2\n")
    keywords = {"config": tmp_path / "my.ini", "bind": [":1", ":2"], "options": {"b": "3"}}
    settings = reading.from_keywords(keywords, {}, "/dir")
    assert [str(each) for each in settings.addresses] == ["0.0.0.0:1", "0.0.0.0:2"]
    assert (settings.backlog, settings.options) == (3, {"a": "1", "b": "3"})


def test_unknown_keyword():
    assert "unknown keyword: 'prot' | did you mean port?" in fault(reading.from_keywords, {"prot": 1}, {}, "/")
    assert "run(threads=...): threads must be" in fault(reading.from_keywords, {"threads": -1}, {}, "/")
    assert "control characters" in fault(reading.from_keywords, {"environ": {"a": "b\n"}}, {}, "/")


def test_config_is_frozen():
    settings = read()
    with pytest.raises(AttributeError, match="Config is frozen: port cannot be set"):
        settings.port = 1
    with pytest.raises(AttributeError, match="Config is frozen: port cannot be deleted"):
        del settings.port
    with pytest.raises(AttributeError):
        settings.__dict__  # noqa: B018
    assert isinstance(settings, poorhttp.Config)


# As text


def test_help_names_every_flag():
    text = printing.help_text()
    for setting in SETTINGS.values():
        assert setting.flag in text
    assert all(len(line) <= 125 for line in text.splitlines())


def test_print_config_names_every_source(ini):
    settings = ini("[http]\nport = 5\n[application]\nkey = value\n[environ]\nNAME = x\n", "-d")
    lines = printing.config_text(settings).splitlines()
    assert "port = 5                                  # my.ini:2" in lines
    assert "debug = yes                               # flag --debug" in lines
    assert "processes = 1                             # default of type single" in lines
    assert {"key = ***", "NAME = ***"} <= set(lines)


def test_what_is_printed_can_be_read_again(ini):
    flags = ("-b", ":1", "--head-timeout=250ms", "--max-body=1.5m", "--type=forking", "--errorlog=e")
    once = ini("[application]\na = b\n", *flags)
    text = "\n".join(line.partition("  # ")[0] for line in printing.config_text(once).splitlines())
    again = ini(text)
    for name in SETTINGS:
        if name != "bind":
            assert getattr(again, name) == getattr(once, name)
    assert list(map(str, again.addresses)) == list(map(str, once.addresses))


def dumped(*argv, environ=None, directory="/dir"):
    return printing.ini_text(parse_flags(argv, str(directory)), environ or {}, str(directory))


def test_dump_config_holds_what_is_given_as_it_was_given():
    lines = dumped("site", "--no-debug", "-b:1", "-b", "unix:x.sock", environ={"POORHTTP_PORT": "9"}).splitlines()
    assert {"application = site", "debug = no", "bind = :1, unix:x.sock", "port = 9", "pidfile ="} <= set(lines)
    assert "# port to listen on; 0 = any free port (default: 8080)" in lines
    assert "# file with the process number while the server runs; empty = none" in lines


def test_dump_config_of_what_was_dumped_is_the_same_again(tmp_path):
    """A value that is given and is the default is not told to differ from it."""
    (tmp_path / "my.ini").write_text(dumped("site", "--port=9", directory=tmp_path))
    assert dumped("-c", "my.ini", directory=tmp_path) == (tmp_path / "my.ini").read_text()


def test_dump_config_settles_what_wins(tmp_path):
    (tmp_path / "my.ini").write_text("[http]\nbind = :1\nbacklog = 5\n")
    lines = dumped("-c", "my.ini", "--address=h:3", directory=tmp_path).splitlines()
    assert {"bind =", "address = h", "port = 3", "backlog = 5", "processes = 0"} <= set(lines)


def test_dump_config_of_a_file_elsewhere_names_its_paths_in_full(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/my.ini").write_text("[http]\npidfile = run.pid\n[application]\nA = b\n[environ]\nC = d\n")
    lines = dumped("-c", "conf/my.ini", directory=tmp_path).splitlines()
    assert {f"pidfile = {tmp_path}/conf/run.pid", "a = b", "C = d"} <= set(lines)


def test_what_is_dumped_means_the_same(tmp_path):
    argv = ("one.py:app", "-d", "-b:1", "-b", "unix:x.sock", "--body-timeout=250ms", "--type=forking", "-p", "run.pid")
    (tmp_path / "again.ini").write_text(dumped(*argv, directory=tmp_path))
    once, again = read(*argv, directory=tmp_path), read("-c", "again.ini", directory=tmp_path)
    for name in set(SETTINGS) - {"bind"}:
        assert getattr(again, name) == getattr(once, name)
    assert list(map(str, again.addresses)) == list(map(str, once.addresses))


# Where the program is


@pytest.mark.parametrize(
    ("argv", "text", "application"),
    [
        ([], "chdir = site\napplication = pages.wsgi\n", "pages.wsgi"),
        ([], "chdir = site\napplication = app.py\n", "{0}/site/app.py"),
        ([], "chdir = site\n", "{0}/site"),
        (["app.py"], "chdir = site\n", "{0}/site/app.py"),
        (["--chdir", "site", "app.py:make()"], "", "{0}/site/app.py:make()"),
        (["--chdir", "{0}/site"], "application = ./sub/app.py\n", "{0}/site/sub/app.py"),
    ],
)
def test_the_application_is_in_chdir(ini, tmp_path, argv, text, application):
    settings = ini(f"[http]\npidfile = run.pid\n{text}", *(each.format(tmp_path) for each in argv))
    assert settings.application == application.format(tmp_path)
    assert (settings.chdir, settings.import_directory) == (f"{tmp_path}/site", f"{tmp_path}/site")
    assert (settings.directory, settings.pidfile) == (str(tmp_path), f"{tmp_path}/run.pid")


def test_an_empty_chdir_is_none(ini, tmp_path):
    settings = ini("[http]\nchdir = site\n", "--chdir=")
    assert (settings.chdir, settings.application) == ("", str(tmp_path))


def test_what_is_loaded_stays_with_the_release_to_which_a_link_leads(ini, tmp_path):
    (tmp_path / "current").symlink_to("release")
    settings = ini("[http]\nchdir = current\n", "app.py")
    assert settings.chdir == f"{tmp_path}/current"
    assert (settings.application, settings.import_directory) == (f"{tmp_path}/release/app.py", f"{tmp_path}/release")


def test_what_is_dumped_with_chdir_is_read_as_the_same(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "my.ini").write_text("[http]\nchdir = ../current\napplication = app.py\n")
    (tmp_path / "current").symlink_to("release")
    flags = parse_flags(["-c", "etc/my.ini", "--dump-config"], str(tmp_path))
    (tmp_path / "dumped.ini").write_text(printing.ini_text(flags, {}, str(tmp_path)))
    first, second = (read("-c", name, directory=tmp_path) for name in ("etc/my.ini", "dumped.ini"))
    assert (first.application, first.import_directory) == (second.application, second.import_directory)
    assert "\napplication = app.py\n" in (tmp_path / "dumped.ini").read_text()


def test_a_link_to_chdir_that_may_not_be_read_is_no_fault(monkeypatch):
    """`/proc/1/root` is such a link for most users; going there then says what is wrong."""

    def realpath(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("poorhttp.config.reading.os.path.realpath", realpath)
    assert read("--chdir=/proc/1/root", "app").import_directory == "/proc/1/root"
