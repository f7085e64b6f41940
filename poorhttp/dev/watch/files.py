"""What of the author's files has changed since it was read.

Knows which files and directories matter: those that the application has read, tried to read or listed, and Python
files and `.env` beside them; new directories beside modules, not beside any file, for /tmp is everybody's. Events are
hints, which cost a look; what is true is what `stat` and the content say. Does not know what is done about a change.
Contract: nothing that was told before it was read is missed, whatever its time, size or way of being saved; content
that is the same again is no change; what a process of the application writes is none either, until that is gone.
"""

from __future__ import annotations

import contextlib
import errno
from hashlib import blake2b

from poorhttp.dev.watch import inotify
from poorhttp.dev.watch.reports import DIRECTORY, MODULES, Identity, Signature, identity, is_theirs, signature, way
from poorhttp.stdlib import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST = 1 << 20
"""Bytes of a file whose content is compared; of a larger one what `stat` says."""

SLICE = 20
"""Files whose content is taken down at once, so that an event does not wait."""

_LIMITS = {errno.EMFILE: "max_user_instances=1024", errno.ENOSPC: "max_user_watches=524288"}
"""What of the kernel's is too low for one more."""

_PENDING = inotify.MODIFY | inotify.CREATE
_DONE = inotify.CLOSE_WRITE | inotify.MOVED_TO | inotify.MOVED_FROM | inotify.DELETE


class _File:
    """A file as the application that serves, or is being loaded, has read it; signature: None where there was none."""

    __slots__ = ("content", "signature")

    def __init__(self, found: Signature | None) -> None:
        self.signature = found
        self.content: bytes | None = None


class Watcher:
    """What is watched, and what is known of it."""

    def __init__(self, roots: Iterable[str]) -> None:
        """roots: directories of the author's, which are watched from the beginning."""
        self.notes: list[str] = []
        """What to tell the author, once."""
        self.sweeps = False
        """Whether events are not to be relied on, so that `changes` has to be asked now and then."""
        self._inotify: inotify.Inotify | None = None
        self._files: dict[str, _File] = {}
        self._directories: dict[str, frozenset[str]] = {}  # with what of it matters
        self._places: set[str] = set()  # directories where modules are, or are looked for
        self._listed: set[str] = set()  # directories of which the application wants to know all that is there
        self._names: dict[str, set[str]] = {}  # of a directory, what to look at for its name's sake
        self._entered: dict[str, Identity | None] = {}  # where a process is, by the name by which it went there
        self._way: set[str] = set()  # directories above others, which take those with them when they go
        self._awaited: dict[str, set[str]] = {}  # of a directory, what is not there on the way to others
        self._missing: set[str] = set()  # what this look has not found
        self._watched: set[tuple[str, int]] = set()  # for what
        self._written: dict[str, set[object]] = {}  # by whom, of those that are there
        self._current: set[str] = set()  # told by the process that serves, or is being loaded
        self._suspects: set[str] = set()  # may be another although `stat` says the same
        self._unclosed: set[str] = set()
        self._linked: dict[str, set[str]] = {}  # of a file, by what other names it is known
        self._is_loading = False
        self.is_new = False
        """Whether a directory is watched that was not when a process told of it: `changes` knows what came between."""
        self._roots = [os.path.abspath(root) for root in roots]
        try:
            self._inotify = inotify.Inotify()
        except OSError as error:
            self._give_up(error)
        self._places.update(self._roots)
        for root in self._roots:
            self._enter(root)

    def fileno(self) -> int:
        """What becomes readable when something happens; -1 for nothing."""
        return self._inotify.fileno() if self._inotify else -1

    def names(self, places: Iterable[str] = ()) -> dict[str, frozenset[str]]:
        """What is there in the directories that are watched, and in these: whether something came or went is seen by
        comparing, also where nobody has asked for more than whether it is there.
        """
        return {directory: _listing(directory) for directory in {*self._directories, *self._names, *places}}

    def count(self) -> int:
        """How many files are watched."""
        return sum(_is_file(each.signature) and path not in self._written for path, each in self._files.items())

    # What the application does

    def begin(self) -> None:
        """A process is about to load the application: what is there now is what it will find, unless it tells so."""
        self._current.clear()
        self._suspects.clear()
        self._is_loading = True
        self._watched.clear()  # the same name may be another directory now
        self._watch_all()
        for file in self._files.values():
            file.content = None
        for path, file in self._files.items():
            self._refresh(path, file)
        for directory in self._directories:
            self._directories[directory] = frozenset(self._matters(directory))
        for directory in self._entered:
            self._entered[directory] = identity(directory)

    def loaded(self) -> None:
        """It is loaded, or failed to be."""
        self._is_loading = False

    def told(self, path: str, found: Signature | None) -> None:
        """A process reads a file, which looks so."""
        if path in self._current:
            return
        self._current.add(path)
        file = self._files.get(path)
        if file is None or file.signature != found:
            self._files[path] = _File(found)
        directory = os.path.dirname(path)
        if found is not None or os.path.isdir(directory):
            self._enter(directory)
        if path.endswith(".py"):
            self._places.add(directory)
        self._follow(path, way(path))

    def entered(self, directory: str, which: Identity | None) -> None:
        """A process goes there, by this name. That another directory has the name, as where a symbolic link is turned
        to another release, is a change. which: None where there was none.
        """
        self.is_new = self.is_new or directory not in self._entered
        self._entered[directory] = which
        *links, place = way(directory)
        self._follow(directory, links)  # what lies beside the directory itself is no interest of this
        if which is None:
            self._watch(place)

    def listed(self, directory: str) -> None:
        """A process looks what is in a directory; with MODULES after it: which modules."""
        if directory.endswith(MODULES):
            directory = directory.removesuffix(MODULES)
            if os.path.isdir(directory):
                self._places.add(directory)
                self._enter(directory)
        elif directory not in self._listed and os.path.isdir(directory):
            self._listed.add(directory)
            self._places.add(directory)
            self._enter(directory)
            self._directories[directory] = frozenset(self._matters(directory))

    def wrote(self, path: str, writer: object) -> None:
        """A process writes a file: until it is gone what happens to that is no edit, whoever does it."""
        self._written.setdefault(path, set()).add(writer)
        self._suspects.discard(path)

    def left(self, writer: object) -> None:
        """A process is gone, and all that it told was heard: what nobody else writes is as it left it."""
        for path, writers in [*self._written.items()]:
            writers.discard(writer)
            if not writers:
                del self._written[path]
                self._accept(path)

    def ignore(self, paths: Iterable[str]) -> None:
        """Take no more notice of these."""
        for path in paths:
            self._written.setdefault(path, set()).add(self)

    def _accept(self, path: str) -> None:
        """What is there is no change, although events of it may be in the queue."""
        file = self._files.get(path)
        if file is not None:
            file.signature, file.content = signature(path), None
            if self._is_to_be_taken(path, file):
                file.content = _content(path)
        directory, name = os.path.split(path)
        if directory in self._directories:
            is_there = os.path.lexists(path) and self._is_of_interest(directory, name)
            shown = name + os.sep if os.path.isdir(path) and not os.path.islink(path) else name
            others = self._directories[directory] - {name, name + os.sep}
            self._directories[directory] = others | ({shown} if is_there else set())

    def _enter(self, directory: str) -> None:
        if directory not in self._directories:
            self.is_new = True
            self._directories[directory] = frozenset()
            self._watch(directory)
            self._directories[directory] = frozenset(self._matters(directory))
            for root in self._roots:  # a directory may go, and come again
                while directory.startswith(root + os.sep):
                    directory, name = os.path.split(directory)
                    self._names.setdefault(directory, set()).add(name)
                    self._watch(directory)
            self._watch_way(directory)

    def _follow(self, path: str, steps: Iterable[str]) -> None:
        """Watch the symbolic links on the way to this file, and where they lead; steps: as from `way`."""
        self._missing.clear()
        for step in steps:
            directory, name = os.path.split(step)
            self._names.setdefault(directory, set()).add(name)
            self._linked.setdefault(step, set()).add(path)
            self._watch(directory)
            self._watch_way(directory)

    # What happens

    def hear(self) -> bool:
        """Read the events; whether one of them may concern the application."""
        if self._inotify is None:
            return False
        is_any = False
        for directory, name, what in self._inotify.read():
            if what & inotify.OVERFLOW:
                self._suspects.update(self._files)
                is_any = True
                continue
            if what & inotify.IGNORED:
                self._watched.difference_update((directory, each) for each in inotify.KINDS)
            elif what & inotify.MOVE_SELF:
                self._forget(directory)
            elif what & inotify.DELETE and os.path.join(directory, name) in self._roots:
                self._forget(os.path.join(directory, name))
            if self._concerns(directory, name, what):
                is_any = True
                self._suspect(directory, name, what)
        return is_any

    def is_pending(self) -> bool:
        """Whether somebody is just writing, or a file that was there is gone or empty: its content may be to come."""
        for path in [*self._unclosed]:
            if not _is_file(signature(path)):
                self._unclosed.discard(path)
        return bool(self._unclosed) or any(self._is_odd(path) for path in self._suspects)

    def forget_pending(self) -> None:
        """Wait for nobody any longer."""
        self._unclosed.clear()

    def changes(self) -> list[str]:
        """What is not as it was read; asked after all that was told has been heard. Each change is given once while an
        application is loaded that has not read that file yet.
        """
        self.is_new = False
        self._watch_all()
        suspects, self._suspects = self._suspects, set()
        changed = [path for path, file in self._files.items() if self._has_changed(path, file, path in suspects)]
        for directory, before in self._directories.items():
            now = frozenset(self._matters(directory))
            changed += (os.path.join(directory, name).rstrip(os.sep) for name in now ^ before)
            if self._is_loading:
                self._directories[directory] = now
        changed += (directory for directory, which in self._entered.items() if identity(directory) != which)
        return sorted({path for path in changed if path not in self._written})

    def has_more(self) -> bool:
        """Whether there are files whose content was not taken down yet."""
        return any(self._is_to_be_taken(path, file) for path, file in self._files.items())

    def take_down(self) -> bool:
        """Note the content of some files, where nothing else is to be done; the same as `hear` says."""
        taken = [path for path, file in self._files.items() if self._is_to_be_taken(path, file)][:SLICE]
        for path in taken:
            file, content = self._files[path], _content(path)
            file.content = content if signature(path) == file.signature else b""
        if not self.hear():
            return False
        for path in self._suspects.intersection(taken):  # written since the application has read it
            self._files[path].content = b""
        return True

    def _is_to_be_taken(self, path: str, file: _File) -> bool:
        found = file.signature
        is_new = file.content is None and found is not None and 0 <= found[1] <= LARGEST
        return is_new and path not in self._written

    def _concerns(self, directory: str, name: str, what: int) -> bool:
        path = os.path.join(directory, name)
        if path in self._written:
            return False
        is_named = name in self._names.get(directory, ()) or name in self._awaited.get(directory, ())
        if is_named or path in self._files or path in self._roots:
            return True
        if what & inotify.IS_DIRECTORY or (what & inotify.COMING and os.path.isdir(path)):
            return directory in self._places and _is_code(path)
        is_looked_at = directory in self._directories and not what & inotify.MODIFY
        return not name or (is_looked_at and self._is_of_interest(directory, name))

    def _suspect(self, directory: str, name: str, what: int) -> None:
        path = os.path.join(directory, name)
        if what & inotify.IS_DIRECTORY:
            if what & inotify.COMING and os.path.isdir(path) and directory in self._places:
                self._arrive(path)
            return
        if what & inotify.COMING and os.path.isdir(path):  # a link
            if path in self._linked or path in self._directories:
                self._forget(path)
            if directory in self._places and _is_code(path):
                self._directories.setdefault(path, frozenset())  # not what is below, which may be everything
        self._suspects.add(path)
        self._suspects.update(self._linked.get(path, ()))
        if what & _DONE or os.path.islink(path):
            self._unclosed.discard(path)
        elif what & _PENDING:
            self._unclosed.add(path)

    def _arrive(self, directory: str) -> None:
        """Watch a new directory, and those in it, which may have been made before it was watched."""
        self._places.add(directory)
        self._directories.setdefault(directory, frozenset())  # whatever is in it is new
        self._watch(directory)
        with contextlib.suppress(OSError), os.scandir(directory) as found:
            for each in found:
                if each.is_dir(follow_symlinks=False) and _is_code(each.path):
                    self._arrive(each.path)

    def _is_odd(self, path: str) -> bool:
        file = self._files.get(path)
        if file is None or file.signature is None or file.signature[1] <= 0:
            return False
        now = signature(path)
        return now is None or now[1] <= 0

    def _has_changed(self, path: str, file: _File, is_suspect: bool) -> bool:
        if path in self._written:
            return False
        now = signature(path)
        if now == file.signature and not (is_suspect and _is_file(now)):
            return False
        if now is not None and file.content and _content(path) == file.content:
            file.signature = now
            return False
        if self._is_loading and path not in self._current:
            self._refresh(path, file)  # it will read it as it is now
            return False
        return True

    def _refresh(self, path: str, file: _File) -> None:
        now = signature(path)
        if now != file.signature:
            file.signature, file.content = now, None

    def _matters(self, directory: str) -> Iterator[str]:
        """What in a directory would, if it came or went, be a change; a slash behind the name of a directory, so that a
        file in its place is another one.
        """
        try:
            with os.scandir(directory) as found:
                names = {each.name: os.sep if each.is_dir(follow_symlinks=False) else "" for each in found}
        except OSError:
            return
        for name, slash in names.items():
            if self._is_of_interest(directory, name):
                yield name + slash

    def _is_of_interest(self, directory: str, name: str) -> bool:
        is_wanted = name.endswith(".py") or directory in self._listed
        if not (_is_plain(name) and is_wanted) and not _is_environment(name):
            return False
        return os.path.join(directory, name) not in self._written

    # Where to hear of it

    def _watch_all(self) -> None:
        self._missing.clear()
        for directory in [*self._directories, *self._names]:
            self._watch(directory)
        for directory in self._way:
            self._watch(directory, inotify.GOING)
        for directory in [*self._awaited]:
            self._watch(directory, inotify.COMING)
        for root in self._roots:  # whoever has it as his working directory keeps the kernel from telling of its end
            self._watch(os.path.dirname(root), inotify.DELETE)

    def _watch_way(self, directory: str) -> None:
        """Hear when one of those above is gone: this one may come again with it, or as another one."""
        while directory != (above := os.path.dirname(directory)) and above not in self._way:
            directory = above
            self._way.add(directory)
            self._watch(directory, inotify.GOING)

    def _watch(self, directory: str, what: int = inotify.ALL) -> None:
        if (directory, what) in self._watched or self._inotify is None:
            return
        try:
            self._inotify.add(directory, what)
        except (FileNotFoundError, NotADirectoryError):
            if what not in (inotify.GOING, inotify.DELETE):
                self._await(directory)
            return
        except OSError as error:
            if what == inotify.ALL or error.errno != errno.EACCES:  # a directory above may be closed to this user
                self._give_up(error)
            return
        self._watched.add((directory, what))
        kind = inotify.distance(directory) if what == inotify.ALL else ""
        if kind and not self.sweeps:
            self.sweeps = True
            self.notes.append(
                f"{directory} is on {kind}, where changes may go unnoticed: looking for them all the time"
            )

    def _await(self, directory: str) -> None:
        """It is not there: hear when it comes, or the one above it."""
        above, name = os.path.split(directory)
        self._awaited.setdefault(above, set()).add(name)
        self._missing.add(directory)
        if above not in self._missing:
            self._watch(above, inotify.COMING)
            self.is_new = self.is_new or os.path.isdir(directory)  # it came meanwhile

    def _forget(self, directory: str) -> None:
        """Another one may have its name now, and so what was below it, of which nobody tells."""
        inside = os.path.join(directory, "")
        self._watched = {each for each in self._watched if each[0] != directory and not each[0].startswith(inside)}

    def _give_up(self, error: OSError) -> None:
        if self.sweeps:
            return  # each look tries again, and would tell it again
        self.sweeps = True
        setting = _LIMITS.get(error.errno or 0)
        hint = f"; sysctl fs.inotify.{setting} allows for more" if setting else ""
        self.notes.append(f"inotify: {error.strerror}{hint}; looking for changes all the time")


def _listing(directory: str) -> frozenset[str]:
    try:
        return frozenset(name for name in os.listdir(directory) if _is_plain(name) or _is_environment(name))
    except OSError:
        return frozenset()


def _content(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""  # the open of a pipe would wait
    try:
        with open(path, "rb") as file:
            return blake2b(file.read(LARGEST + 1), digest_size=16).digest()
    except OSError:
        return b""


def _is_file(found: Signature | None) -> bool:
    return found is not None and found != DIRECTORY


def _is_code(directory: str) -> bool:
    """Whether the author may keep modules there."""
    return _is_plain(os.path.basename(directory)) and is_theirs(os.path.join(directory, ""))


def _is_environment(name: str) -> bool:
    """`.env`, `.env.local`, `my.env` or `.flaskenv`, which others look for without opening: nobody is told of that."""
    is_named_so = name == ".flaskenv" or name.startswith(".env.") or name.endswith(".env")
    return is_named_so and name[:2] != ".#" and name[-1] != "~" and name[-3:-1] != "sw" and "___jb_" not in name


def _is_plain(name: str) -> bool:
    """Whether an editor would not have made this file for itself."""
    return name[0] not in ".#" and name[-1] not in "~#" and "___jb_" not in name and name != "__pycache__"
