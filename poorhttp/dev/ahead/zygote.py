"""A process that waits until it may load the application, and the forks that do so in its place.

Knows the command to load and how a child of the supervisor is forked. Does not know what was imported before, nor when
the supervisor sends the command.
"""

from __future__ import annotations

import errno
import struct
from json import loads

from poorhttp.dev.ahead import preload
from poorhttp.dev.ahead.copying import copy_memory
from poorhttp.dev.watch.reports import FORKED, Reporter
from poorhttp.stdlib import os, select, socket, time
from poorhttp.system.exits import end_with

GO = b"g"
"""The command to load the application, on the control pipe."""

INT = struct.Struct("i")

LARGEST_LIST = 1 << 16
"""Bytes of the list of modules that are being edited."""


class Channels:
    """The process's ends of its link to the supervisor, control pipe and accept pause, and the paths of the modules
    that are being edited (`hot`).
    """

    __slots__ = ("accept_pause", "control", "hot", "link")

    def __init__(self, link: int, control: int, accept_pause: int) -> None:
        self.link, self.control, self.accept_pause = link, control, accept_pause
        self.hot: list[str] = loads(os.read(link, LARGEST_LIST))

    def descriptors(self) -> tuple[int, int, int]:
        return self.link, self.control, self.accept_pause


def await_command(supervisor: int, link: int, control: int, accept_pause: int) -> Channels:
    """Return where the application is to be loaded: in this process, or in a fork of it that has channels of its own.
    supervisor: its process number.
    """
    sock = socket.socket(fileno=link)
    poll = select.poll()
    poll.register(link, select.POLLIN)
    poll.register(control, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if control in ready:
            return _loading(sock.detach(), control, accept_pause)
        data, ancillary, _, _ = sock.recvmsg(64, socket.CMSG_SPACE(3 * INT.size), socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        own = [number for _, _, raw in ancillary for (number,) in INT.iter_unpack(raw)]
        if len(own) == 3 and fork(supervisor):
            for each in (sock.detach(), control, accept_pause):
                if each >= 0:
                    os.close(each)
            Reporter(own[0]).tell(FORKED, b"%d" % os.getpid())
            copy_memory(own[1])
            return _loading(own[0], own[1], own[2])
        for descriptor in own:
            os.close(descriptor)


def _loading(link: int, control: int, accept_pause: int) -> Channels:
    if os.read(control, 1) != GO:
        os._exit(0)
    return Channels(link, control, accept_pause)


def fork(supervisor: int) -> bool:
    """Fork a process that is a child of the supervisor; whether this is the fork. Raises OSError."""
    middle = os.fork()
    if middle:
        if os.waitpid(middle, 0)[1]:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return False
    try:
        before = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == before:
            time.sleep(0.0001)
        end_with(supervisor)
        preload.begin_anew()
        return True
    except BaseException:
        os._exit(1)  # else two processes would go on with the caller's work
