"""What an exchange says of a server: pure functions of a case and what came back.

`deviation` is a difference from the suite that deviations.py knows the reason of; it counts for every server alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from conformance.case import Case, Request
from conformance.deviations import Room, room_of
from conformance.talk import Answer, Exchange


class Verdict(NamedTuple):
    kind: str  # one of ORDER
    why: str = ""


ORDER = ("pass", "deviation", "warn", "fail", "hang", "died")  # from best to worst
PASS = Verdict("pass")
REFUSE = ("refuse", "must refuse", "differ")  # room to refuse
# Framing, the connection and what proxies say are the server's; Host is compared where a case tells it.
NOT_COMPARED = {"HTTP_CONNECTION", "HTTP_HOST", "HTTP_TRANSFER_ENCODING", "HTTP_KEEP_ALIVE", "HTTP_UPGRADE", "HTTP_TE",
                "HTTP_TRAILER", "HTTP_EXPECT", "HTTP_CONTENT_LENGTH", "HTTP_PROXY", "HTTP_PROXY_AUTHORIZATION",
                "HTTP_PROXY_CONNECTION", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO",
                "HTTP_X_FORWARDED_PORT", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED"}  # fmt: skip


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    return max(verdicts, key=lambda verdict: ORDER.index(verdict.kind))


def judge(case: Case, exchange: Exchange) -> Verdict:
    """The verdict on one exchange."""
    room, answers = room_of(case), exchange.answers
    for number, (request, answer) in enumerate(zip(case.requests, answers, strict=False)):
        if not 200 <= answer.status < 300:
            return refused_instead(answers[number:], f"request {number + 1} of {len(case.requests)} refused", room)
        if request and (wrong := difference(request, answer, case)):
            return Verdict("deviation" if uses(room, "differ") else "fail", f"request {number + 1}: {wrong}")
    missing, rest = len(case.requests) - len(answers), answers[len(case.requests) :]
    if missing > 0:
        if not exchange.closed:
            return Verdict("hang", f"{len(answers)} answers, {missing} more were due")
        if answers and answers[-1].closes:
            return Verdict("warn", f"closed after answer {len(answers)} of {len(case.requests)}, as announced")
        if uses(room, *REFUSE):
            return Verdict("deviation", "closed without an answer")
        return Verdict("fail", f"closed, and {missing} answers missing")
    return END[case.end](case, exchange, rest, room)


def refused_instead(rest: tuple[Answer, ...], what: str, room: Room | None) -> Verdict:
    status = rest[0].status
    if len(rest) > 1 or not is_refusal(status):
        return Verdict("fail", f"{what}: {statuses(rest)}")
    return Verdict("deviation" if uses(room, *REFUSE) else "fail", f"{what}: {status}")


def uses(room: Room | None, *may: str) -> bool:
    return room is not None and room.may in may


def at_nothing(case: Case, exchange: Exchange, rest: tuple[Answer, ...], room: Room | None) -> Verdict:
    if not rest:
        return Verdict("fail", "accepted what must be refused") if uses(room, "must refuse") else PASS
    return Verdict("fail", f"after the last request: {statuses(rest)}")


def at_refused(case: Case, exchange: Exchange, rest: tuple[Answer, ...], room: Room | None) -> Verdict:
    if not rest:
        closes = exchange.closed and uses(room, "close")
        return Verdict("deviation", "closed without an answer") if closes else silent(exchange)
    if 200 <= rest[0].status < 300:
        return Verdict("deviation" if uses(room, "accept") else "fail", f"accepted: {statuses(rest)}")
    if len(rest) > 1:
        return Verdict("fail", f"went on after a refusal: {statuses(rest)}")
    if not is_refusal(rest[0].status):
        kind = "warn" if rest[0].status else "fail"
        return Verdict(kind, f"answered {rest[0].status or 'no HTTP/1'}, no status for a client's fault")
    if case.status not in (None, rest[0].status):
        return Verdict("warn", f"refused with {rest[0].status}, not {case.status}")
    return Verdict("warn", "refused only after the client's end") if exchange.late else PASS


def at_incomplete(case: Case, exchange: Exchange, rest: tuple[Answer, ...], room: Room | None) -> Verdict:
    # A server that gives bodies as they come calls the application before it can know; no section forbids it.
    if any(200 <= answer.status < 300 for answer in rest):
        return Verdict("warn", f"the application answered what is not all there: {statuses(rest)}")
    return PASS


def at_either(case: Case, exchange: Exchange, rest: tuple[Answer, ...], room: Room | None) -> Verdict:
    if not rest:
        return silent(exchange)
    if len(rest) == 1 and is_refusal(rest[0].status):
        return PASS
    if 200 <= rest[0].status < 300 and (len(rest) == 1 or (len(rest) == 2 and is_refusal(rest[1].status))):
        return PASS if len(rest) == 1 else Verdict("warn", f"accepted, and what follows refused: {statuses(rest)}")
    if len(rest) == 1:
        return Verdict("warn" if rest[0].status else "fail", f"answered {rest[0].status or 'no HTTP/1'}")
    return Verdict("fail", f"more than one request seen: {statuses(rest)}")


END = {"nothing": at_nothing, "refused": at_refused, "incomplete": at_incomplete, "either": at_either}


def silent(exchange: Exchange) -> Verdict:
    return Verdict("warn", "closed without an answer") if exchange.closed else Verdict("hang", "no answer, no close")


def is_refusal(status: int) -> bool:
    """A client's fault, or one of the statuses for what a server does not do (RFC 9110 sections 15.6.2, 15.6.6)."""
    return 400 <= status < 500 or status in (501, 505)


def statuses(answers: tuple[Answer, ...]) -> str:
    return ", ".join(str(answer.status) for answer in answers)


def difference(request: Request, answer: Answer, case: Case) -> str:
    """How what the application saw differs from what the suite tells; "" where it does not."""
    seen = answer.seen
    if request.by_server or (seen is None and request.method == "HEAD"):
        return ""
    if seen is None:
        return "answered by another than the application"
    for name in ("method", "path", "query", "body"):
        expected = getattr(request, name)
        # An empty path is that of a URI without one, and the same as `/` (RFC 9110 section 4.2.3).
        if (seen[name] or "/" if name == "path" else seen[name]) != expected:
            return f"{name} {shown(seen[name])}, not {shown(expected)}"
    if request.host is not None and seen["fields"].get("HTTP_HOST") != request.host:
        return f"Host {shown(seen['fields'].get('HTTP_HOST'))}, not {shown(request.host)}"
    return field_difference(request, seen["fields"], case)


def field_difference(request: Request, seen: dict[str, str], case: Case) -> str:
    expected: dict[str, str] = {}
    for name, value in request.fields:
        variable = name.upper().replace("-", "_")
        variable = variable if variable == "CONTENT_TYPE" else f"HTTP_{variable}"
        if "_" not in name and variable not in NOT_COMPARED:
            expected[variable] = f"{expected[variable]},{value}" if variable in expected else value
    for variable, value in expected.items():
        if joined(seen.get(variable)) != joined(value):
            return f"{variable} {shown(seen.get(variable))}, not {shown(value)}"
    # What is in the bytes, but not in the head: a trailer, or what another field or a body hid.
    hidden = {name for name in seen.keys() - expected.keys() - NOT_COMPARED if sent(name, case.raw)}
    names = {name.upper().replace("-", "_") for name, _ in request.fields}
    extra = {name for name in hidden if name.removeprefix("HTTP_") not in names}
    return f"unexpected {', '.join(sorted(extra))}" if extra else ""


def joined(value: str | None) -> str | None:
    """Fields of one name are joined with a comma or, for cookies, a semicolon; spaces beside it mean nothing."""
    return None if value is None else re.sub(r"[ \t]*[,;][ \t]*", ",", value)


def sent(variable: str, raw: bytes) -> bool:
    name = re.escape(variable.removeprefix("HTTP_").encode("latin-1")).replace(b"_", b"[-_]")
    return bool(re.search(rb"(?i)(?:^|[\r\n])" + name + rb"[ \t]*:", raw))


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"
