"""What a cache gives back, beside a dict; which keys and values it refuses; and what is given up when it is full."""

from __future__ import annotations

import datetime
import enum
import math
import time
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from poorhttp.cache import Cache

MIB = 1 << 20

texts = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
)
keys = st.sampled_from(["a", "b", "c", "d", "Příliš", "", "x" * 1000]) | st.binary(max_size=8)


def is_same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other) and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))


class BesideADict(RuleBasedStateMachine):
    """Whatever is done, the cache is a dict: it has room for all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(size=4 * MIB)
        self.model: dict[bytes, Any] = {}

    @staticmethod
    def known(key: str | bytes) -> bytes:
        return key.encode() if isinstance(key, str) else key

    @rule(key=keys, value=plain | st.binary(max_size=3000))
    def set(self, key: str | bytes, value: Any) -> None:
        self.cache.set(key, value, timeout=60)
        self.model[self.known(key)] = value

    @rule(key=keys, value=texts)
    def add(self, key: str | bytes, value: str) -> None:
        assert self.cache.add(key, value) is (self.known(key) not in self.model)
        self.model.setdefault(self.known(key), value)

    @rule(key=keys, value=st.binary(max_size=300), prefix=st.binary(max_size=2))
    def replace(self, key: str | bytes, value: bytes, prefix: bytes) -> None:
        old = self.model.get(self.known(key))
        is_put = type(old) is bytes and old.startswith(prefix)
        assert self.cache.replace(key, prefix, value) is is_put
        if is_put:
            self.model[self.known(key)] = value

    @rule(key=keys, delta=st.integers(-(2**63), 2**63 - 1))
    def incr(self, key: str | bytes, delta: int) -> None:
        old = self.model.get(self.known(key), 0)
        if type(old) is not int or not -(2**63) <= old < 2**63:
            with pytest.raises(TypeError, match="is no int"):
                self.cache.incr(key, delta, default=0)
        elif not -(2**63) <= old + delta < 2**63:
            with pytest.raises(OverflowError, match="64 bits"):
                self.cache.incr(key, delta, default=0)
        else:
            assert self.cache.incr(key, delta, default=0) == old + delta
            self.model[self.known(key)] = old + delta

    @rule(key=keys)
    def delete(self, key: str | bytes) -> None:
        assert self.cache.delete(key) is (self.model.pop(self.known(key), self) is not self)

    @rule(key=keys)
    def touch(self, key: str | bytes) -> None:
        assert self.cache.touch(key, 60) is (self.known(key) in self.model)

    @rule(key=keys)
    def let_it_be_over(self, key: str | bytes) -> None:
        assert self.cache.touch(key, 0) is (self.model.pop(self.known(key), self) is not self)

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.model.clear()

    @rule(key=keys)
    def get(self, key: str | bytes) -> None:
        assert (key in self.cache) is (self.known(key) in self.model)
        found = self.cache.get(key, self)
        assert is_same(found, self.model.get(self.known(key), self)) or found is self

    @invariant()
    def all_is_there(self) -> None:
        absent = object()
        for key, value in self.model.items():
            assert is_same(self.cache.get(key, absent), value)


BesideADict.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBesideADict = BesideADict.TestCase


@given(plain)
def test_what_json_has_comes_back_exactly(value: Any) -> None:
    CACHE.set("key", value)
    assert is_same(CACHE.get("key"), value)


CACHE = Cache(size=4 * MIB)
Pair = namedtuple("Pair", "a b")
Level = enum.IntEnum("Level", "LOW")


class Text(str):
    """Such as Django's SafeString."""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((1, 2), "the value is of type tuple"),
        ([{"a": (1,)}], r"the value\[0\]\['a'\] is of type tuple"),
        ({1: 2}, "the value has the key 1 of type int: keys are str"),
        ({Text("a"): 2}, "the key 'a' of type Text"),
        (Text("a"), "the value is of type Text"),
        ([Text("a")], r"the value\[0\] is of type Text"),
        (Level.LOW, "of type Level"),
        (Pair(1, 2), "of type Pair"),
        (OrderedDict(a=1), "of type OrderedDict"),
        (bytearray(b"a"), "of type bytearray"),
        ([b"a"], r"the value\[0\] is of type bytes"),
        ({1, 2}, "of type set"),
        (Decimal("1.0"), "of type Decimal"),
        (datetime.datetime(2026, 1, 1), "of type datetime"),
        (math.nan, "cannot be written as JSON: Out of range float"),
        ([-math.inf], "cannot be written as JSON: Out of range float"),
        (["\ud83d\ude00"], "half of a surrogate pair"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        pytest.param(10**5000, "cannot be written as JSON", id="huge"),
    ],
)
def test_what_json_would_alter_is_refused(cache: Cache, value: Any, told: str) -> None:
    cache.set("key", "before")
    for put in cache.set, cache.add:
        with pytest.raises(TypeError, match=told):
            put("key", value)
    assert cache.get("key") == "before"


def test_a_value_that_holds_itself_is_refused(cache: Cache) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TypeError, match="more than 100 levels deep, or holds itself"):
        cache.set("key", value)


def test_half_a_surrogate_pair_is_refused_everywhere(cache: Cache) -> None:
    with pytest.raises(UnicodeEncodeError):
        cache.set("key", "\ud800")
    with pytest.raises(UnicodeEncodeError):
        cache.get("\ud800")


def test_with_pickle_any_value_comes_back(path: str) -> None:
    cache = Cache(path, 4 * MIB, pickle=True)
    value = {1: (Pair(1, {2}), Text("a"), Level.LOW, datetime.datetime(2026, 1, 1))}
    cache.set("key", value)
    found = cache.get("key")
    assert found == value and type(found[1][1]) is Text
    cache.set("number", 3)
    assert cache.incr("number") == 4
    other = Cache(path, 4 * MIB)
    with pytest.raises(TypeError, match="a value is a pickle, which this cache was not opened for"):
        other.get("key")
    assert other.get("number") == 4


@pytest.mark.parametrize("key", [None, 1, ("a",), bytearray(b"a")])
def test_a_key_is_str_or_bytes(cache: Cache, key: Any) -> None:
    for do in cache.get, cache.delete, cache.touch, cache.incr, cache.load, lambda key: cache.set(key, 1):
        with pytest.raises(TypeError, match="expected str or bytes"):
            do(key)
    with pytest.raises(TypeError, match="expected str or bytes"):
        assert key in cache


def test_a_long_key_is_refused(cache: Cache) -> None:
    cache.set("ř" * 512, 1)
    assert cache.get(("ř" * 512).encode()) == 1
    for key in "x" * 10_000, b"x" * 1025, "ř" * 513:
        with pytest.raises(ValueError, match=r"a key has \d+ bytes; expected at most 1024: use a hash of it"):
            cache.set(key, 1)
        with pytest.raises(ValueError, match="expected at most 1024"):
            cache.get(key)


def test_a_large_value_is_refused_and_the_old_one_stays() -> None:
    cache = Cache()
    cache.set("key", b"x" * MIB)
    for put in cache.set, cache.add:
        with pytest.raises(
            ValueError, match=r"a value has 1048577 bytes; this cache takes at most 1048576: make it larger"
        ):
            put("key", b"x" * (MIB + 1))
    assert cache.get("key") == b"x" * MIB


@pytest.mark.parametrize("size", [0, -1, MIB - 1, (64 << 30) + 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="expected 1048576 to 68719476736 bytes"):
        Cache(size=size)


@pytest.mark.parametrize("size", [MIB, MIB + 12345, 7 * MIB, 300 * MIB])
def test_any_size_in_between_works(size: int) -> None:
    cache = Cache(size=size)
    value = b"x" * cache.largest
    for number in range(10):
        cache.set(f"{number}", value)
        assert cache.get(f"{number}") == value


def test_values_end_at_their_time(cache: Cache) -> None:
    start = time.monotonic()
    cache.set("short", 1, timeout=0.2)
    cache.set("long", 2, timeout=60)
    cache.set("other", 3)
    cache.incr("count", default=0, timeout=0.2)
    assert cache.get("short") == 1 and cache.incr("count") == 2
    while "short" in cache or "count" in cache:
        assert time.monotonic() - start < 5
        time.sleep(0.01)
    assert time.monotonic() - start >= 0.2
    assert cache.get("short") is None and not cache.delete("short") and not cache.touch("short", 60)
    assert cache.get("long") == 2 and cache.get("other") == 3
    assert cache.add("short", 4) and cache.incr("count", default=5) == 6


@pytest.mark.parametrize("timeout", [0, -1, -1e300, -math.inf])
def test_a_timeout_that_is_over_leaves_no_value(cache: Cache, timeout: float) -> None:
    cache.set("key", 1)
    cache.set("key", 2, timeout)
    assert "key" not in cache and cache.get("key") is None
    assert cache.add("key", 3, timeout) and cache.get("key") is None


@pytest.mark.parametrize("timeout", [1e300, math.inf, 2**80])
def test_a_timeout_beyond_all_measure_is_none(cache: Cache, timeout: float) -> None:
    cache.set("key", 1, timeout)
    assert cache.get("key") == 1 and cache.touch("key", timeout) and cache.get("key") == 1


def test_a_timeout_that_is_no_number_is_refused(cache: Cache) -> None:
    with pytest.raises(ValueError, match="a timeout is nan"):
        cache.set("key", 1, math.nan)
    with pytest.raises(TypeError):
        cache.set("key", 1, "60")  # type: ignore[arg-type]


def test_counting(cache: Cache) -> None:
    with pytest.raises(KeyError, match="count"):
        cache.incr("count")
    assert cache.incr("count", 5, default=10) == 15 and cache.decr("count", 20) == -5
    assert cache.decr("other", default=0) == -1 and cache.get("other") == -1
    with pytest.raises(OverflowError):
        cache.decr("count", -(2**63))


def test_what_is_counted(cache: Cache) -> None:
    cache.set("a", 1)
    cache.get("a"), cache.get("b"), cache.get("a")
    stats = cache.stats()
    assert (stats["hits"], stats["misses"], stats["items"], stats["evictions"]) == (2, 1, 1, 0)
    assert 0 < stats["bytes"] < 100 and stats["memory"] < 200_000
    cache.clear()
    assert cache.stats()["items"] == cache.stats()["bytes"] == 0 and cache.stats()["hits"] == 2


def test_a_closed_cache_refuses(cache: Cache) -> None:
    cache.close()
    for do in (lambda: cache.get("a"), lambda: cache.set("a", 1), cache.clear, cache.stats, lambda: "a" in cache):
        with pytest.raises(ValueError, match="the cache is closed"):
            do()


def test_a_full_cache_gives_up_the_oldest_and_keeps_what_is_used() -> None:
    cache = Cache(size=8 * MIB)
    value = b"x" * 10_000
    for number in range(5000):
        cache.set(f"{number}", value)
        cache.add("used", value)
        assert cache.get("used") == value
    stats = cache.stats()
    assert stats["memory"] <= 8 * MIB and stats["evictions"] == 5001 - stats["items"]
    assert stats["bytes"] > 0.7 * 8 * MIB, "the room is used"
    assert all(cache.get(f"{number}") == value for number in range(4700, 5000))
    assert "10" not in cache


def test_memory_is_taken_as_it_is_used() -> None:
    cache = Cache(size=512 * MIB)
    assert cache.stats()["memory"] < 20 * MIB
    for number in range(1000):
        cache.set(f"{number}", b"x" * 1000)
    assert cache.stats()["memory"] < 30 * MIB
