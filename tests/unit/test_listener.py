"""Listening sockets, and what is said where one cannot be had."""

import errno
import os
import socket
import stat
import subprocess
import sys

import pytest

from poorhttp import stdlib
from poorhttp.config.addresses import Address
from poorhttp.errors import ListenError
from poorhttp.listen import backlog, port_owner, sockets, unix_sockets


@pytest.fixture
def listen():
    """Listen, and close at the end of the test."""
    socks = []

    def listen_on(host="127.0.0.1", port=0, path=""):
        socks.append(sockets.bind(Address(host, port, path)))
        sockets.begin(socks[-1], 16)
        return socks[-1]

    yield listen_on
    sockets.close(socks)


def fault(address):
    with pytest.raises(ListenError) as caught:
        sockets.bind(address)
    assert caught.value.exit_code == 4
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.hint}"


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def test_tcp(listen):
    sock = listen()
    port = sock.getsockname()[1]
    assert not sock.getblocking()
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 256 << 10
    assert sockets.url(sock) == f"http://127.0.0.1:{port}/"
    assert not sockets.is_public(sock)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def test_a_name_is_its_ipv4_address(listen):
    assert listen("localhost").getsockname()[0] == "127.0.0.1"


def test_every_address_is_told_as_one_to_go_to(listen):
    sock = listen("0.0.0.0")
    assert sockets.url(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}/"
    assert sockets.is_public(sock)


@needs_ipv6
def test_ipv6_only(listen):
    for _ in range(20):
        sock = listen("::")
        port = sock.getsockname()[1]
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        assert sockets.url(sock) == f"http://[::1]:{port}/"
        try:
            assert sockets.url(listen("127.0.0.1", port)) == f"http://127.0.0.1:{port}/"
        except ListenError:
            continue  # the system gave a port that somebody else has on 127.0.0.1
        return
    pytest.fail("where [::] listens, 127.0.0.1 cannot")


def test_unix(listen, tmp_path):
    path = str(tmp_path / "x.sock")
    sock = listen(path=path)
    assert sockets.url(sock) == f"unix:{path}"
    assert not sock.getblocking()
    assert not sockets.is_public(sock)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    sockets.close([sock])
    assert not os.path.exists(path)


def test_port_in_use_names_its_owner(listen):
    port = listen().getsockname()[1]
    said = fault(Address("127.0.0.1", port))
    program = os.path.basename(sys.executable) if sys.executable == sys.orig_argv[0] else ""
    assert said.startswith(f"127.0.0.1:{port} is in use by pid {os.getpid()} ({program}")
    assert said.endswith(f"| choose another port, or stop the process that has this one: kill {os.getpid()}")


@pytest.fixture
def holder(listen):
    """Start a process that has inherited the socket, forks a child that has it too, and stays."""
    sock = listen()
    code = "import os, sys\npid = os.fork()\nif pid: print(pid, flush=True)\nsys.stdin.read()"
    started = []

    def start(*arguments):
        started.append(subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[sock.fileno()],
        ))  # fmt: skip
        return started[-1].pid, int(started[-1].stdout.readline())

    yield sock.getsockname()[1], start
    for process in started:
        process.communicate(timeout=20)


def test_port_in_use_by_several_names_those_that_the_others_end_with(holder, listen, monkeypatch):
    port, start = holder
    (one, child), (other, _) = start("one", "x" * 200), start("two")
    first, second = sorted((one, other))
    monkeypatch.setattr(sockets.os, "listdir", without(os.getpid()))
    said = fault(Address("127.0.0.1", port))
    assert f"in use by pid {first} (" in said
    assert f", pid {second} (" in said
    assert said.endswith(f": kill {first} {second}")
    assert str(child) not in said.replace(str(port), "")
    assert len(said) < 400


def without(pid):
    """os.listdir as if there were no such process."""
    listdir = os.listdir
    return lambda path: [each for each in listdir(path) if each != str(pid)]


def test_a_process_that_is_gone_has_no_name():
    assert port_owner._command(1 << 22) == ""
    assert port_owner._parent(1 << 22) == 0


def test_port_in_use_by_every_address(listen):
    port = listen("0.0.0.0").getsockname()[1]
    assert f"by pid {os.getpid()} (" in fault(Address("127.0.0.1", port))


def test_every_address_in_use_by_one(listen):
    port = listen().getsockname()[1]
    assert f"by pid {os.getpid()} (" in fault(Address("0.0.0.0", port))


@needs_ipv6
def test_ipv6_port_in_use_names_its_owner(listen):
    port = listen("::1").getsockname()[1]
    assert f"[::1]:{port} is in use by" in fault(Address("::1", port))


def test_port_in_use_by_whom_is_not_readable(listen, monkeypatch):
    port = listen().getsockname()[1]
    monkeypatch.setattr(port_owner, "socket_inodes", lambda pid: set())
    assert fault(Address("127.0.0.1", port)) == f"127.0.0.1:{port} is in use | choose another port"


def test_low_port(monkeypatch):
    class Denied(sockets.socket.socket):
        def bind(self, place):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sockets.socket, "socket", Denied)
    assert fault(Address("127.0.0.1", 80)).startswith("127.0.0.1:80: no permission for port 80 | a port below 1024")
    assert fault(Address("127.0.0.1", 8080)).startswith("cannot listen on 127.0.0.1:8080: Permission denied")


def test_address_of_another_machine():
    assert "192.0.2.1:0 is not an address of this machine" in fault(Address("192.0.2.1", 0))


def test_unknown_host():
    assert "256.256.256.256:80: no such host" in fault(Address("256.256.256.256", 80))


def test_no_descriptor_is_lost_by_a_failure(listen):
    port = listen().getsockname()[1]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        fault(Address("127.0.0.1", port))
    assert len(os.listdir("/proc/self/fd")) == before


# Unix sockets


def test_stale_socket_is_replaced(listen, tmp_path):
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    listen(path=path)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_another_users_stale_socket_is_a_fault_with_a_hint(tmp_path, monkeypatch):
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)

    def unlink(path):  # as in a directory such as /tmp, where everybody removes his own files only
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)

    monkeypatch.setattr(stdlib.os, "unlink", unlink)
    assert fault(Address(path=path)).startswith(f"cannot replace {path}, which a dead process has left: Operation not")


def test_a_stale_socket_that_another_start_removes_is_no_fault(listen, tmp_path, monkeypatch):
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    unlink = os.unlink

    def unlink_twice(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(stdlib.os, "unlink", unlink_twice)
    listen(path=path)
    monkeypatch.undo()


def test_live_socket_is_refused(listen, tmp_path):
    path = str(tmp_path / "x.sock")
    sock = listen(path=path)
    assert fault(Address(path=path)).startswith(f"unix:{path} is in use by pid {os.getpid()} (")
    assert sockets.url(sock) == f"unix:{path}"
    assert stat.S_ISSOCK(os.lstat(path).st_mode)


def test_a_full_queue_is_alive(tmp_path):
    path = str(tmp_path / "x.sock")
    clients = []
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(path)
        busy.listen(0)
        try:
            for _ in range(3):
                clients.append(socket.socket(socket.AF_UNIX))
                clients[-1].setblocking(False)
                clients[-1].connect_ex(path)
            assert "is in use" in fault(Address(path=path))
        finally:
            for client in clients:
                client.close()


@pytest.mark.parametrize("make", [lambda path: path.write_text("precious"), lambda path: path.mkdir()])
def test_what_is_no_socket_is_left_alone(tmp_path, make):
    path = tmp_path / "x.sock"
    make(path)
    assert fault(Address(path=str(path))) == f"{path} exists and is not a socket | choose another path"
    assert path.exists()


def test_a_link_to_a_socket_is_not_followed(listen, tmp_path):
    listen(path=str(tmp_path / "real.sock"))
    (tmp_path / "link.sock").symlink_to("real.sock")
    assert "exists and is not a socket" in fault(Address(path=str(tmp_path / "link.sock")))


def test_missing_directory(tmp_path):
    said = fault(Address(path=f"{tmp_path}/no/x.sock"))
    assert said.startswith(f"cannot listen on unix:{tmp_path}/no/x.sock: No such file or directory")


def test_close_leaves_the_socket_of_a_successor(tmp_path):
    path = str(tmp_path / "x.sock")
    first = sockets.bind(Address(path=path))
    os.rename(path, f"{path}.moved")  # keeps the inode busy, so the successor's differs
    second = sockets.bind(Address(path=path))
    unix_sockets._made[path] = (os.getpid(), 0, 0)
    sockets.close([first])
    assert os.path.exists(path)
    sockets.close([second])


def test_close_in_a_forked_child_removes_nothing(listen, tmp_path, monkeypatch):
    path = str(tmp_path / "x.sock")
    sock = listen(path=path)
    monkeypatch.setattr(sockets.os, "getpid", lambda: 1)
    sockets.close([sock])
    assert os.path.exists(path)


def test_what_a_socket_has_can_be_changed(listen, tmp_path):
    sock = listen()
    sockets.change(sock, 3, -1, (-1, -1))
    assert backlog.queue(sock) == (0, 3)
    path = tmp_path / "unix.sock"
    sock = listen(path=str(path))
    for mode, found in [(0o600, 0o600), (-1, 0o600), (0o660, 0o660)]:
        sockets.change(sock, 3, mode, (os.getuid(), -1))
        assert path.stat().st_mode & 0o777 == found
    path.rename(tmp_path / "old.sock")
    path.touch(0o604)
    sockets.change(sock, 3, 0o600, (-1, -1))
    assert path.stat().st_mode & 0o777 == 0o604, "it is another's"
    assert unix_sockets.is_lost(str(path))
