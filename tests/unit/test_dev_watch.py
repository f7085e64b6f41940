"""What a watcher takes for a change, and what it does where the kernel does not tell."""

import errno
import os

import pytest

from poorhttp.dev.watch import files, inotify, paths, reports
from poorhttp.dev.watch.files import Watcher


@pytest.fixture(autouse=True)
def queues(monkeypatch):
    """None outlives its test: a user may have 128 at a time."""
    made = []

    class Noted(inotify.Inotify):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(inotify, "Inotify", Noted)
    yield
    for each in made:
        os.close(each.fileno())


@pytest.fixture
def watcher(tmp_path):
    made = Watcher([str(tmp_path)])
    made.begin()
    return made


def read(watcher, path):
    """As a process does, some time after the file was saved."""
    watcher.hear()
    watcher.changes()
    watcher.read(str(path), paths.signature(str(path)))


def ready(watcher):
    watcher.loaded()
    while watcher.has_contents_to_note():
        watcher.note_contents()


def test_the_same_content_is_no_change_and_another_one_is(watcher, tmp_path):
    path = tmp_path / "page.txt"
    path.write_text("one")
    read(watcher, path)
    ready(watcher)
    path.write_text("one")
    assert watcher.hear() and watcher.changes() == []
    path.write_text("two")
    assert watcher.hear() and watcher.changes() == [str(path)]


def test_an_exchange_of_the_directory_while_the_content_is_taken_down_is_a_change(tmp_path, monkeypatch):
    place, other = tmp_path / "place", tmp_path / "other"
    for directory, text in (place, "one"), (other, "two"):
        directory.mkdir()
        (directory / "page.txt").write_text(text)
    watcher = Watcher([str(place)])
    watcher.begin()
    read(watcher, place / "page.txt")
    watcher.loaded()
    content = files._content

    def exchanged_first(path):
        place.rename(tmp_path / "old")
        other.rename(place)
        return content(path)

    monkeypatch.setattr(files, "_content", exchanged_first)
    assert watcher.note_contents()
    monkeypatch.setattr(files, "_content", content)
    assert watcher.changes() == [str(place / "page.txt")]


def test_an_edit_before_the_content_was_taken_down_is_one(watcher, tmp_path):
    """With time and size of the old one."""
    path = tmp_path / "page.txt"
    path.write_text("one")
    read(watcher, path)
    status = path.stat()
    with path.open("r+") as file:
        file.write("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    ready(watcher)
    watcher.hear()
    assert watcher.changes() == [str(path)]


def test_what_is_not_read_yet_is_no_reason_to_begin_anew(watcher, tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in first, second:
        path.write_text("one")
        read(watcher, path)
    watcher.loaded()
    watcher.begin()
    read(watcher, first)
    second.write_text("two")
    assert watcher.hear() and watcher.changes() == []
    read(watcher, second)
    first.write_text("two")
    assert watcher.hear() and watcher.changes() == [str(first)]


def test_what_the_application_writes_is_no_change(watcher, tmp_path):
    path = tmp_path / "count.txt"
    path.write_text("one")
    read(watcher, path)
    watcher.loaded()
    for writer in "old", "new":
        watcher.wrote(str(path), writer)
    path.write_text("two")
    watcher.writer_is_gone("old")
    path.write_text("three")
    assert not watcher.hear() and watcher.changes() == []


@pytest.mark.parametrize("is_listed", [False, True])
def test_what_a_process_wrote_that_is_gone_may_be_edited(watcher, tmp_path, is_listed):
    """But what it did last is no edit, heard of or not."""
    path = tmp_path / "count.txt"
    if is_listed:
        watcher.listed(str(tmp_path))
    else:
        read(watcher, path)
    watcher.loaded()
    watcher.wrote(str(path), "old")
    path.write_text("one")
    watcher.hear()
    path.write_text("two")
    watcher.writer_is_gone("old")
    watcher.hear()
    assert watcher.changes() == []
    path.unlink() if is_listed else path.write_text("three")
    assert watcher.hear() and watcher.changes() == [str(path)]


def test_what_is_restless_stays_ignored(watcher, tmp_path):
    path = tmp_path / "count.txt"
    read(watcher, path)
    watcher.loaded()
    watcher.ignore([str(path)])
    watcher.wrote(str(path), "old")
    watcher.writer_is_gone("old")
    path.write_text("one")
    assert not watcher.hear() and watcher.changes() == []


@pytest.mark.parametrize("name", ["new.py", "package", ".env", ".env.local", "my.env", ".flaskenv"])
def test_new_code_is_a_change(watcher, tmp_path, name):
    watcher.loaded()
    if name == "package":
        (tmp_path / name).mkdir()
        assert watcher.hear() and watcher.changes() == []
        (tmp_path / name / "part.py").write_text("")
    else:
        (tmp_path / name).write_text("")
    assert watcher.hear() and len(watcher.changes()) == 1


def test_directories_that_come_together(watcher, tmp_path):
    """The inner one before the outer one could be watched."""
    watcher.loaded()
    path = tmp_path / "outer" / "inner" / "part.py"
    path.parent.mkdir(parents=True)
    assert watcher.hear() and watcher.changes() == []
    path.write_text("")
    assert watcher.hear() and watcher.changes() == [str(path)]


def test_where_modules_are_looked_for_other_files_do_not_matter(watcher, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    watcher.hear()
    watcher.listed(str(place) + reports.MODULES)
    watcher.listed(str(tmp_path / "nowhere") + reports.MODULES)
    watcher.loaded()
    (place / "notes.txt").write_text("")
    assert not watcher.hear() and watcher.changes() == []
    (place / "part.py").write_text("")
    assert watcher.hear() and watcher.changes() == [str(place / "part.py")]
    assert str(tmp_path / "nowhere") not in watcher.names()


def test_beside_a_file_that_is_no_module_new_directories_are_no_code(watcher, tmp_path_factory):
    """As in /tmp, where an application keeps a file for a while, and others what they like; files beside it are."""
    place = tmp_path_factory.mktemp("place")
    (place / "data").write_text("one")
    read(watcher, place / "data")
    read(watcher, place / "missing")
    watcher.loaded()
    (place / "others").mkdir()
    (place / "others" / "part.py").write_text("")
    assert not watcher.hear() and watcher.changes() == []
    for name in "missing", ".env", "part.py":
        (place / name).write_text("there")
        assert watcher.hear() and str(place / name) in watcher.changes()


OTHERS = ".new.py #new.py# new.py~ .#new.py notes.txt __pycache__ x___jb_tmp___"
BESIDE_ENV = ".env~ #.env# .#.env .env.swp ..env.swp .env___jb_tmp___ .env.kate-swp"


@pytest.mark.parametrize("name", f"{OTHERS} {BESIDE_ENV}".split())
def test_other_new_files_are_none(watcher, tmp_path, name):
    watcher.loaded()
    (tmp_path / name).write_text("")
    watcher.hear()
    assert watcher.changes() == []


def test_somebody_writing_is_waited_for(watcher, tmp_path):
    path = tmp_path / "page.txt"
    path.write_text("one")
    read(watcher, path)
    watcher.loaded()
    with path.open("w") as file:
        file.flush()
        watcher.hear()
        assert watcher.is_pending()
        file.write("two")
    watcher.hear()
    assert not watcher.is_pending() and watcher.changes() == [str(path)]


def test_every_link_on_the_way_is_watched(watcher, tmp_path):
    for name in "one", "two":
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.txt").write_text(name)
    (tmp_path / "inner").symlink_to("one")
    (tmp_path / "outer").symlink_to("inner")
    (tmp_path / "page.txt").symlink_to("outer/page.txt")
    read(watcher, tmp_path / "page.txt")
    watcher.loaded()
    (tmp_path / "fresh").symlink_to("two")
    (tmp_path / "fresh").rename(tmp_path / "inner")
    assert watcher.hear() and watcher.changes() == [str(tmp_path / "page.txt")]


def test_where_a_switched_link_leads_is_watched_although_the_content_is_the_same(watcher, tmp_path):
    for name in "one", "two":
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "page.txt").write_text("same")
    (tmp_path / "current").symlink_to("one")
    path = tmp_path / "current" / "deep" / "page.txt"
    read(watcher, path)
    ready(watcher)
    (tmp_path / "fresh").symlink_to("two")
    (tmp_path / "fresh").rename(tmp_path / "current")
    assert watcher.hear() and watcher.changes() == []
    path.write_text("edited")
    assert watcher.hear() and watcher.changes() == [str(path)]


def test_directories_that_come_one_after_the_other_where_none_was(watcher, tmp_path):
    """Each is awaited in the one above it, and what else happens there is nobody's business."""
    place = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    read(watcher, place / "deep" / "page.txt")
    watcher.loaded()
    (tmp_path.parent / f"{tmp_path.name}-other").mkdir()
    (tmp_path.parent / f"{tmp_path.name}-other.py").write_text("")
    assert not watcher.hear()
    for directory in place, place / "deep":
        directory.mkdir()
        assert watcher.hear() and watcher.changes() == []
    (place / "deep" / "page.txt").write_text("one")
    assert watcher.hear() and watcher.changes() == [str(place / "deep" / "page.txt")]


@pytest.mark.parametrize(
    ("code", "says"),
    [(errno.ENOSPC, "max_user_watches"), (errno.EMFILE, "max_user_instances"), (errno.ENOSYS, "inotify")],
)
def test_without_inotify_it_looks(tmp_path, monkeypatch, code, says):
    def refuse():
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(inotify, "Inotify", refuse)
    watcher = Watcher([str(tmp_path)])
    assert watcher.directories.sweeps and watcher.fileno() == -1
    assert says in watcher.directories.notes[0] and "looking for changes all the time" in watcher.directories.notes[0]
    watcher.begin()
    path = tmp_path / "page.txt"
    path.write_text("one")
    read(watcher, path)
    watcher.loaded()
    assert watcher.changes() == []
    path.write_text("other")
    assert watcher.changes() == [str(path)]


def test_that_no_watches_are_left_is_said_once(tmp_path, monkeypatch):
    """For all directories and looks."""

    def refuse(self, directory, what):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), directory)

    monkeypatch.setattr(inotify.Inotify, "add", refuse)
    path = tmp_path / "inner" / "page.txt"
    path.parent.mkdir()
    path.write_text("one")
    watcher = Watcher([str(tmp_path)])
    watcher.begin()
    read(watcher, path)
    watcher.loaded()
    assert watcher.changes() == []
    [note] = watcher.directories.notes
    assert watcher.directories.sweeps and "max_user_watches" in note
    watcher.directories.notes.clear()  # it was told
    path.write_text("other")
    assert watcher.changes() == [str(path)] and watcher.directories.notes == []


def test_a_distant_file_system_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(inotify, "distance", lambda path: "NFS")
    watcher = Watcher([str(tmp_path)])
    assert watcher.directories.sweeps and watcher.fileno() >= 0
    assert watcher.directories.notes == [
        f"{tmp_path} is on NFS, where changes may go unnoticed: looking for them all the time"
    ]


def test_a_directory_above_that_is_closed_to_this_user_is_no_reason_to_look_all_the_time(tmp_path, monkeypatch):
    add = inotify.Inotify.add

    def refuse(self, directory, what):
        if what == inotify.GOING:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), directory)
        add(self, directory, what)

    monkeypatch.setattr(inotify.Inotify, "add", refuse)
    watcher = Watcher([str(tmp_path)])
    assert not watcher.directories.sweeps and not watcher.directories.notes


@pytest.mark.parametrize("place", ["templates/own", "templates", "."])
def test_a_directory_that_comes_with_a_file_that_was_missed_in_it(tmp_path, place):
    """Each step on the way to it may come alone; what else comes there is no change."""
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    watcher = Watcher([str(tmp_path)])
    watcher.begin()
    path = tmp_path / "templates" / "own" / "page.html"
    read(watcher, path)
    ready(watcher)
    for each in path.parent.parent, path.parent:
        each.mkdir(exist_ok=True)
        (each / "other.html").write_text("")
        if watcher.hear():  # else nobody looks
            assert watcher.changes() == []
    path.write_text("one")
    assert watcher.hear() and watcher.changes() == [str(path)]
