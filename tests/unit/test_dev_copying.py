"""A waiting fork copies its memory in advance."""

import ctypes
import mmap
import os
import resource

import pytest

from poorhttp.dev.ahead import zygote


def faults_of_a_fork(memory, prepare):
    """How many pages a fork has to copy when it writes into each of this memory."""
    end, other_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        prepare()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for place in range(0, len(memory), mmap.PAGESIZE):
            memory[place] = 1
        os.write(other_end, b"%d" % (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
        os._exit(0)
    os.close(other_end)
    os.waitpid(pid, 0)
    with open(end) as told:
        return int(told.read())


@pytest.fixture
def lifeline():
    """Both ends of a pipe."""
    ends = os.pipe()
    yield ends
    for each in ends:
        os.close(each)


def test_a_fork_copies_its_memory_in_advance_while_there_is_room_and_nothing_to_load(lifeline, tmp_path, monkeypatch):
    end, other_end = lifeline
    monkeypatch.setattr(zygote, "MOST_COPIED", 1 << 40)  # however much this very process has by now
    with mmap.mmap(-1, 1000 * mmap.PAGESIZE, mmap.MAP_PRIVATE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory.write(b"x" * len(memory))
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        if ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), 23):
            pytest.skip("this kernel has no MADV_POPULATE_WRITE: Linux 5.14 does")
        assert faults_of_a_fork(memory, lambda: None) >= 1000
        assert faults_of_a_fork(memory, lambda: zygote.copy_memory(end)) < 100
        os.write(other_end, b"g")
        assert faults_of_a_fork(memory, lambda: zygote.copy_memory(end)) >= 1000
        os.read(end, 1)
        limit, usage = tmp_path / "limit", tmp_path / "usage"
        limit.write_text(f"{1 << 30}\n")
        usage.write_text(f"{(1 << 30) - len(memory)}\n")
        monkeypatch.setattr(zygote, "CONTAINER", (("missing", "missing"), (str(limit), str(usage))))
        assert faults_of_a_fork(memory, lambda: zygote.copy_memory(end)) >= 1000
        limit.write_text("max\n")
        assert faults_of_a_fork(memory, lambda: zygote.copy_memory(end)) < 100


def test_a_fork_that_cannot_copy_its_memory_goes_on(lifeline, monkeypatch):
    def refuse(path, *rest):
        raise RuntimeError(path)

    with monkeypatch.context() as author:
        author.setattr("builtins.open", refuse)
        zygote.copy_memory(lifeline[0])
