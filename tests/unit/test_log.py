"""The error log: its format, what cannot be forged, its pages, and reopening."""

import errno
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import stdlib
from poorhttp.config.settings import LEVELS
from poorhttp.errors import FIRST, LAST, printable, shown
from poorhttp.logs import program
from poorhttp.logs.log import LETTERS, ErrorLog, check, open_access_log, reopen_access_log
from poorhttp.process import worker

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[(?P<remote>.*?)\] \[(?P<letter>[SACEWNID0])\] (?P<text>.*)\n")
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # surrogates too
NASTY = "a\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k\x1b[2Jl\x00m\ud800n\u202eo\U000e0001p"

Make = Callable[..., ErrorLog]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "error.log"


@pytest.fixture
def make(path: Path) -> Iterator[Make]:
    """Make error logs on `path`; their descriptors are closed afterwards."""
    made: list[ErrorLog] = []

    def build(level: str = "info", debug: bool = False, webmaster: str = "root@localhost") -> ErrorLog:
        made.append(ErrorLog(str(path), level, debug, webmaster))
        return made[-1]

    yield build
    for log in made:
        os.close(log.fileno())


def raised(exc: BaseException) -> BaseException:
    """Give `exc` a traceback."""
    try:
        raise exc
    except BaseException as caught:
        return caught


def test_a_line_has_the_original_format(make: Make, path: Path) -> None:
    make().write("E", "no such page", "127.0.0.1")
    found = LINE.fullmatch(path.read_text())
    assert found is not None
    assert found.groupdict() == {"remote": "127.0.0.1", "letter": "E", "text": "no such page"}


def test_without_a_client_the_remote_is_a_dash(make: Make, path: Path) -> None:
    make().write("S", "started")
    assert path.read_text().endswith(": [-] [S] started\n")


@pytest.mark.parametrize("number", range(7))
def test_the_level_is_a_threshold(make: Make, path: Path, number: int) -> None:
    log = make(LEVELS[number])
    for letter in LETTERS:
        log.write(letter, "text")
    written = [line.split("] [")[1][0] for line in path.read_text().splitlines()]
    assert written == list(LETTERS[: number + 1])


def test_the_last_level_is_everything(make: Make, path: Path) -> None:
    log = make("debug")
    for letter in LETTERS:
        log.write(letter, "text")
    assert len(path.read_text().splitlines()) == len(LETTERS)


def test_start_and_stop_are_always_written(make: Make, path: Path) -> None:
    make("emerg").write("S", "stopped")
    assert "stopped" in path.read_text()


def test_a_log_that_was_closed_is_no_fault(path: Path) -> None:
    log = ErrorLog(str(path), "info", debug=False, webmaster="")
    os.close(log.fileno())
    log.wait(False)
    log.write("E", "lost")


@given(ANY_TEXT, ANY_TEXT)
def test_no_text_forges_a_line(text: str, remote: str) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb") as writer:
        log = ErrorLog(f"/dev/fd/{writer.fileno()}", "info", False, "")
        try:
            log.write("I", text, remote)
        finally:
            os.close(log.fileno())
        writer.close()
        line = reader.read().decode()
    assert len(line.splitlines()) == 1
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert line.endswith(f"[I] {printable(text)}\n")


@given(ANY_TEXT)
def test_escaped_text_is_printable_and_printable_text_is_untouched(text: str) -> None:
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    if text.isprintable():
        assert printable(text) == text


def test_of_a_long_detail_the_first_and_the_last_lines_are_shown() -> None:
    assert shown("") == [] and shown("a\x1b\n\n b\n") == ["a\\x1b", "", " b"]
    for number in FIRST + LAST, FIRST + LAST + 1:
        whole = [str(each) for each in range(number)]
        assert shown("\n".join(whole)) == whole
    lines = shown("\n".join(map(str, range(100))))
    assert lines[:FIRST] == [str(each) for each in range(FIRST)]
    assert lines[FIRST:-LAST] == [f"[left out: {100 - FIRST - LAST} lines]"]
    assert lines[-LAST:] == [str(each) for each in range(100 - LAST, 100)]


def test_escapes_are_pythons_own() -> None:
    assert printable("a\nb\x1bc\x85d\u2028e\ud800") == r"a\nb\x1bc\x85d\u2028e\ud800"
    assert printable("žluťoučký kůň") == "žluťoučký kůň"


def test_an_exception_is_logged_with_its_traceback(make: Make, path: Path) -> None:
    make().exception(raised(ValueError("wrong")), "10.0.0.1", "GET /heavy")
    first, *rest = path.read_text().splitlines()
    assert first.endswith(": [10.0.0.1] [E] GET /heavy: ValueError")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: wrong"


def test_a_late_call_is_told_without_the_handler_in_which_it_was_interrupted(make: Make, path: Path) -> None:
    class RequestTimeout(BaseException):
        """As the engine's."""

    def call(handler: Callable[[], None]) -> None:
        handler()

    names: dict[str, Any] = {"RequestTimeout": RequestTimeout}
    exec(compile("def handler():\n    raise RequestTimeout", worker.__file__, "exec"), names)
    with pytest.raises(RequestTimeout) as caught:
        call(names["handler"])
    make().exception(caught.value, "-", "GET /")
    frames = [line for line in path.read_text().splitlines() if line.startswith('      File "')]
    assert frames[-1].endswith(", in call")


def test_what_of_ours_has_called_the_application_is_left_out(make: Make, path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile("def guard(call):\n    call()", worker.__file__, "exec"), names)
    exec(compile("def application():\n    1 / 0", "application.py", "exec"), names)
    with pytest.raises(ZeroDivisionError) as caught:
        names["guard"](names["application"])
    error = caught.value
    assert error.__traceback__ is not None
    make().exception(error.with_traceback(error.__traceback__.tb_next), "-", "GET /")
    frames = [line for line in path.read_text().splitlines() if line.startswith('      File "')]
    assert [frame.rpartition(", in ")[2] for frame in frames] == ["application"]


def test_an_exception_is_logged_whatever_the_level(make: Make, path: Path) -> None:
    make("emerg").exception(raised(ValueError("wrong")), "-", "GET /")
    assert "ValueError: wrong" in path.read_text()


@given(ANY_TEXT)
def test_no_exception_forges_a_line(text: str) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb") as writer:
        log = ErrorLog(f"/dev/fd/{writer.fileno()}", "info", True, "")
        try:
            page = log.exception(raised(ValueError("\n2026-11-21 10:00:00: [-] [S] forged\n" + text)), text, text)
        finally:
            os.close(log.fileno())
        writer.close()
        lines = reader.read().decode().splitlines()
    assert sum(bool(LINE.fullmatch(line + "\n")) for line in lines) == 1
    assert all(line.startswith("    ") or LINE.fullmatch(line + "\n") for line in lines)
    assert all(line.isprintable() for line in lines)
    assert b"forged" not in page


def test_the_stack_of_a_thread_is_that_of_its_application(make: Make, path: Path) -> None:
    log = make()
    stack = log.stack(threading.get_ident())
    assert f'File "{__file__}"' in stack
    assert "log.stack(threading.get_ident())" in stack
    log.write_trace("W", "GET / is late", "192.0.2.1", stack)
    first, *rest = path.read_text().splitlines(keepends=True)
    found = LINE.fullmatch(first)
    assert found and (found["remote"], found["letter"], found["text"]) == ("192.0.2.1", "W", "GET / is late")
    assert rest and all(line.startswith("    ") for line in rest)


def test_a_thread_that_is_gone_has_no_stack(make: Make) -> None:
    assert make().stack(0) == "(outside Python)\n"


@given(text=ANY_TEXT, remote=ANY_TEXT)
def test_no_trace_forges_a_line(text: str, remote: str) -> None:
    reading, writing = os.pipe()
    log = ErrorLog("-", "info", False, "")
    log._descriptor = writing
    log.write_trace("W", text, remote, f"{text}\n{remote}")
    os.close(writing)
    with open(reading, "rb") as file:
        first, *rest = file.read().decode().split("\n")[:-1]
    assert LINE.fullmatch(first + "\n")
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


def test_the_page_of_an_exception_tells_nothing(make: Make) -> None:
    page = make().exception(raised(ValueError("secret")), "-", "GET /")
    assert b"500 - Internal Server Error" in page
    assert b"webmaster: root@localhost" in page
    assert b"secret" not in page
    assert b"Python" not in page


@pytest.mark.parametrize("remote", ["-", "127.0.0.1", "::1", "192.0.2.1", "::ffff:192.0.2.1"])
def test_nobody_sees_a_traceback_on_this_page(make: Make, remote: str) -> None:
    """Not with debug either: the log does not know which clients may see one (see poorhttp.dev.page.pages)."""
    page = make(debug=True).exception(raised(ValueError("hidden")), remote, "GET /")
    assert b"hidden" not in page and b"Traceback" not in page
    assert b"poorhttp/" in page


def test_an_exception_is_told_even_if_traceback_cannot_be_imported(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemExit

    monkeypatch.setitem(__import__("sys").modules, "traceback", None)
    monkeypatch.delitem(vars(stdlib), "traceback", raising=False)
    for exc, text in (ValueError("wrong"), "ValueError: wrong"), (KeyError(), "KeyError"), (Mute(), "Mute"):
        assert b"500" in make().exception(raised(exc), "-", "GET /")
        assert f"    {text} (without source: the traceback module cannot be used)" in path.read_text().splitlines()


def test_a_page_escapes_what_it_shows(make: Make) -> None:
    page = make(webmaster="<me>").page(404, "Not Found", "/<b>\n").decode()
    assert "<title>404 - Not Found</title>" in page
    assert "/&lt;b&gt;" in page
    assert "webmaster: &lt;me&gt;" in page


def test_nobody_is_named_where_there_is_no_webmaster(make: Make) -> None:
    assert b"webmaster" not in make(webmaster="").page(404, "Not Found", "gone")


def test_the_stream_writes_at_each_end_of_line(make: Make, path: Path) -> None:
    stream = make().stream
    stream.write("one")
    assert path.read_text() == ""
    stream.write(" line\nand ")
    print("another", file=stream)
    stream.writelines(["a\n", "b\n"])
    assert path.read_text() == "one line\nand another\na\nb\n"
    stream.write("rest")
    stream.flush()
    assert path.read_text().endswith("b\nrest")


def test_the_stream_takes_any_text(make: Make, path: Path) -> None:
    make().stream.write("\ud800ž\n")
    assert path.read_text() == "\\ud800ž\n"


def test_a_full_disk_fails_no_request() -> None:
    log = ErrorLog("/dev/full", "info", False, "")
    try:
        log.write("E", "text")
        log.stream.write("text\n")
        log.exception(raised(ValueError()), "-", "GET /")
    finally:
        os.close(log.fileno())


def test_flush_never_raises(make: Make) -> None:
    log = make()
    log.flush()
    log.stream.close()
    log.flush()


def test_a_log_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ErrorLog(str(tmp_path / "missing" / "error.log"), "info", False, "")


def test_reopen_keeps_the_number_and_takes_the_new_file(make: Make, path: Path) -> None:
    log = make()
    log.write("I", "before")
    number = log.fileno()
    path.rename(path.with_suffix(".1"))
    log.reopen()
    log.write("I", "after")
    log.stream.write("stream\n")
    assert log.fileno() == number
    assert not os.get_inheritable(number)
    assert "after" in path.read_text() and "stream" in path.read_text()
    assert path.with_suffix(".1").read_text().endswith("before\n")


def test_reopen_renews_the_access_log_too(make: Make, tmp_path: Path) -> None:
    log, access = make(), tmp_path / "access.log"
    descriptor = open_access_log(str(access))
    try:
        log.follow(descriptor, str(access))
        access.rename(tmp_path / "access.log.1")
        log.reopen()
        os.write(descriptor, b"after\n")
    finally:
        os.close(descriptor)
    assert access.read_text() == "after\n"


def test_where_reopen_fails_the_old_file_goes_on(make: Make, path: Path) -> None:
    log = make()
    moved = path.parent.with_name(path.parent.name + "-moved")
    path.parent.rename(moved)
    log.reopen()
    log.write("I", "still here")
    text = (moved / path.name).read_text()
    moved.rename(path.parent)
    assert "cannot open the log" in text
    assert text.endswith("still here\n")


def test_a_pipe_that_nobody_reads_is_not_waited_for(make: Make, path: Path, tmp_path: Path) -> None:
    """At USR1 the process would hear nothing any more, no stop either."""
    fifo = tmp_path / "access.fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    access_log = open_access_log(str(fifo))
    try:
        assert os.get_blocking(access_log), "who writes to it waits for a reader that is slow"
        os.close(reader)
        log = make()
        log.follow(access_log, str(fifo))
        log.reopen()
        assert "cannot open the log" in path.read_text()
        with pytest.raises(OSError, match="No such device or address"):
            open_access_log(str(fifo))
    finally:
        os.close(access_log)


def test_a_pipe_that_nobody_reads_is_opened_though_it_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_as_another(path: str, way: int, mode: int = 0o777) -> int:
        if path == str(fifo) and not way & os.O_WRONLY:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return open_(path, way, mode)

    fifo = tmp_path / "access.fifo"
    os.mkfifo(fifo)
    open_ = os.open
    monkeypatch.setattr(stdlib.os, "open", open_as_another)
    access_log = open_access_log(str(fifo), may_be_unread=True)
    try:
        os.write(access_log, b"lost\n")
        reader = open_(fifo, os.O_RDONLY | os.O_NONBLOCK)
        reopen_access_log(access_log, str(fifo))
        os.write(access_log, b"read\n")
        assert os.read(reader, 100) == b"read\n"
        os.close(reader)
    finally:
        os.close(access_log)


def test_a_socket_is_no_log(tmp_path: Path) -> None:
    """Found out in advance, since it could never be opened."""
    path = str(tmp_path / "log.sock")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        with pytest.raises(OSError, match="No such device or address"):
            check(path)


def test_standard_streams_are_not_reopened(capfd: pytest.CaptureFixture[str]) -> None:
    log = ErrorLog("-", "info", False, "")
    log.follow(open_access_log("-"), "-")
    log.reopen()
    log.write("I", "here")
    assert log.fileno() == 2
    assert capfd.readouterr().err.endswith("here\n")


def test_access_log_descriptors() -> None:
    assert open_access_log("") == -1
    assert open_access_log("-") == 1
    reopen_access_log(-1, "")
    reopen_access_log(1, "-")


def test_files_are_for_appending_and_not_inherited_by_programs(make: Make, path: Path) -> None:
    path.write_text("old\n")
    log = make()
    log.write("I", "new")
    assert path.read_text().startswith("old\n")
    assert not os.get_inheritable(log.fileno())


def test_the_nasty_ones_by_name() -> None:
    assert len(NASTY.splitlines()) > 8
    assert len(printable(NASTY).splitlines()) == 1


def test_a_guardian_hears_no_signal_before_it_has_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process manager that tells the whole group to end may do so at once."""
    reader, writer = os.pipe()

    def tell(*_: Any) -> None:
        os.write(writer, b"%d" % (signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])))

    monkeypatch.setattr(program, "_become_guardian", tell)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.close(program.start(sys.executable, lambda text: text.encode(), -1))
    os.close(writer)
    with open(reader, "rb") as told:
        assert told.read() == b"1"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
