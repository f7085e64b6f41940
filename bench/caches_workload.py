"""What DiskCache's article asks of a cache of Django, and which answers can be right. Pure: knows no cache.

Each process makes a list of operations from a generator that its own number seeds, so the list is the same on every
machine. A value of a set tells the number of the operation, and so who may have written it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from zlib import crc32

from bench.client import Failure

KEYS = 1100
ACTIONS = ("get", "set", "delete")
GET, SET, DELETE = range(len(ACTIONS))
NOTHING, REFUSED = 0, 1  # what a get saw that found nothing, and a set that returned False
Origin = tuple[int, int]  # process and number of the operation by which a value was written
BEFORE: Origin = (-1, -1)  # by which the cache was filled
Written = list[dict[int, Origin | None]]  # for each key: checksum of a value -> its origin; None: it has several


def operations(process: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Action (a place in ACTIONS), key, and how often the value of a set repeats the number of the operation.

    The numbers of the article are those of Python 2, whose `randrange(n)` was `int(random() * n)`.
    """
    draw = random.Random(process).random
    for _ in range(count):
        key, repeats, choice = int(draw() * KEYS), 1 + int(draw() * 99), draw()
        yield GET if choice < 0.9 else SET if choice < 0.99 else DELETE, key, repeats


def encoded(process: int, count: int) -> bytes:
    """The operations for apps/cache_process.py: three numbers of 16 bits each."""
    return array("H", chain.from_iterable(operations(process, count))).tobytes()


def first_value(key: int) -> bytes:
    """What the cache is filled with."""
    return str(key).encode()


def value(number: int, repeats: int) -> bytes:
    """What the operation of this number writes, where it is a set."""
    return str(number).encode() * repeats


def timed(processes: int, count: int, warm_up: int) -> dict[str, int]:
    """How many operations of each action are timed: all but the first ones of each process."""
    found = dict.fromkeys(ACTIONS, 0)
    for process in range(processes):
        for number, (action, _, _) in enumerate(operations(process, count)):
            found[ACTIONS[action]] += number >= warm_up
    return found


def written(processes: int, count: int) -> Written:
    """Every value that a key has at some time."""
    found: Written = [{crc32(first_value(key)): BEFORE} for key in range(KEYS)]
    for process in range(processes):
        for number, (action, key, repeats) in enumerate(operations(process, count)):
            if action == SET:
                checksum = crc32(value(number, repeats))
                found[key][checksum] = None if checksum in found[key] else (process, number)
    return found


def ensure_right(process: int, seen: Sequence[int], known: Written) -> None:
    """Raise Failure if the process got a value that nobody wrote at its key, or one that it had overwritten itself.

    seen: for each of its operations the checksum of what a get found, or NOTHING; of a set REFUSED, or NOTHING.
    """
    last = [-1] * KEYS  # of each key, the number of this process's last set or delete
    for number, ((action, key, _), saw) in enumerate(zip(operations(process, len(seen)), seen, strict=True)):
        if action == GET and saw != NOTHING:
            if saw not in known[key]:
                raise Failure(f"process {process}, operation {number}: a value at key {key} that nobody wrote there")
            by, when = known[key][saw] or (None, 0)
            if (by == process and when < last[key]) or (by == BEFORE[0] and last[key] >= 0):
                raise Failure(f"process {process}, operation {number}: an old value at key {key}, which this process "
                              f"overwrote or deleted by its operation {last[key]}")  # fmt: skip
        elif action != GET and saw != REFUSED:
            last[key] = number


def lost(seen: Sequence[int]) -> int:
    """Of a process that was alone: how many gets found nothing though a value was there. Raises Failure at a value that
    is not the last one.
    """
    there = [crc32(first_value(key)) for key in range(KEYS)]
    count = 0
    for number, ((action, key, repeats), saw) in enumerate(zip(operations(0, len(seen)), seen, strict=True)):
        if action == SET and saw != REFUSED:
            there[key] = crc32(value(number, repeats))
        elif action == DELETE:
            there[key] = NOTHING
        elif action == GET:
            if saw not in (NOTHING, there[key]):
                raise Failure(f"operation {number}: not the last value at key {key}")
            count += saw == NOTHING != there[key]
    return count


def ensure_known(found: Sequence[int], known: Written) -> None:
    """Raise Failure if a key has a value that nobody wrote there. found: for each key a checksum, or NOTHING."""
    for key, saw in enumerate(found):
        if saw != NOTHING and saw not in known[key]:
            raise Failure(f"key {key}: a value that nobody wrote there")
