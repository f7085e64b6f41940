"""Where a suite is not the last word: its cases, what a server may do besides, the section that says so, and why.

Data, and one look-up. Where a server uses such room, its verdict is `deviation`, whichever server it is. The entries of
the suite `corpus` are the choices that poorhttp made and that bind nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from conformance.case import Case


@dataclass(frozen=True)
class Room:
    suite: str
    cases: tuple[str, ...]  # names, or patterns of them
    # What it may do though the suite expects otherwise; `must refuse`: the specification demands it against the suite;
    # `differ`: refuse, or see another request than the suite says; `close`: refuse by a close without an answer.
    may: Literal["accept", "refuse", "must refuse", "differ", "close"]
    section: str
    reason: str


# fmt: off
ROOM = (
    # What the suite expects to be accepted.
    Room("gunicorn", ("valid/005",), "refuse", "RFC 9112 3.2", "a fragment is no part of a request target"),
    Room("gunicorn", ("valid/012",), "refuse", "RFC 9110 6.5.1", "Content-Type is content format: no trailer"),
    Room("gunicorn", ("valid/014",), "refuse", "RFC 3986 2", "a quotation mark is no character of a URI"),
    Room("gunicorn", ("valid/024", "valid/026"), "refuse", "RFC 9110 5.4", "a server sets its own limit of lines"),
    Room("gunicorn", ("valid/025", "valid/025_line", "valid/rfc9112_smuggle_gzip_chunked_01"), "refuse",
         "RFC 9112 6.1", "an unknown transfer coding is 501; none is undone here, or a body would be passed on coded"),
    Room("gunicorn", ("valid/029", "valid/030", "valid/rfc9112_smuggle_te_identity_chunked_01"), "refuse",
         "RFC 9112 7.3", "`identity` is no transfer coding since RFC 7230, so it is unknown: 501"),
    Room("gunicorn", ("valid/028",), "must refuse", "RFC 9112 5.1", "whitespace before the colon must be refused"),
    Room("gunicorn", ("valid/031compat*",), "differ", "RFC 9110 9.1", "methods are case-sensitive, and may be unknown"),
    Room("gunicorn", ("valid/compat_obs_fold*",), "differ", "RFC 9112 5.2", "obs-fold is refused, or is spaces"),
    Room("gunicorn", ("valid/rfc9112_target_absolute_userinfo_01",), "refuse", "RFC 9110 4.2.4",
         "userinfo in http URIs should be treated as an error"),
    Room("gunicorn", ("valid/rfc9112_target_authority_*",), "refuse", "RFC 9110 9.3.6", "no tunnels here: 501"),
    Room("llhttp", ("method: CONNECT *", "uri: Underscore in hostname"), "refuse", "RFC 9110 9.3.6",
         "no tunnels here: 501"),
    Room("llhttp", ("method: M-SEARCH request",), "refuse", "RFC 9112 3.2.4", "`*` is for OPTIONS only"),
    Room("llhttp", ("method: * with ICE", "method: * with RTSP"), "refuse", "RFC 9112 2.3", "another protocol"),
    Room("llhttp", ("sample: No HTTP version",), "refuse", "RFC 9112 3", "HTTP/0.9 is another protocol"),
    Room("llhttp", ("transfer-encoding: Trailing headers",), "refuse", "RFC 9110 6.5.1",
         "Content-Type is content format: no trailer"),
    Room("llhttp", ("transfer-encoding: POST with `chunked` as last transfer-encoding*",), "refuse",
         "RFC 9112 3.2, 6.1", "a fragment in the target; and an unknown transfer coding, 501"),
    Room("llhttp", ("uri: Fragment in URI",), "refuse", "RFC 9112 3.2", "a fragment is no part of a request target"),
    Room("llhttp", ("uri: `host:port` and basic auth",), "refuse", "RFC 9110 4.2.4",
         "userinfo in http URIs should be treated as an error"),
    Room("llhttp", ("uri: Quotes in URI", "uri: Query URL with vertical bar character"), "refuse", "RFC 3986 2",
         "neither is a character of a URI"),
    Room("desync", ("more-compliant-tests: Correct TE OK", "more-compliant-tests: Transfer-Encoding: identity and *",
                    "more-compliant-tests: Multiple transfer encoding headers *", "rfc-compliant: Different Transfer*"),
         "refuse", "RFC 9112 6.1", "an unknown transfer coding is 501"),
    Room("desync", ("more-compliant-tests: TE with custom parameters OK", "rfc-compliant: Transfer-Encoding with a *"),
         "refuse", "RFC 9112 7.1", "chunked takes no parameters: their presence should be treated as an error"),
    Room("desync", ("rfc-compliant: Compliant URL", "rfc-compliant: International in URI"), "refuse", "RFC 9112 3.2",
         "a fragment, or bytes beyond ASCII, which no request target holds"),
    Room("desync", ("rfc-compliant: Empty URI",), "refuse", "RFC 9112 3", "a request line without a target"),
    # What the suite expects to be refused.
    Room("gunicorn", ("invalid/003c",), "accept", "RFC 9110 9.1", "any token is a method; the application answers 405"),
    Room("gunicorn", ("invalid/006", "invalid/007", "invalid/008", "invalid/009", "invalid/017"), "accept",
         "RFC 9110 5.4", "a server sets its own limits: here 8 KiB a request line, 128 KiB and 200 fields a head"),
    Room("gunicorn", ("invalid/010", "invalid/012", "invalid/limit_header_default_01"), "accept", "RFC 9110 5.4",
         "limit_request_field_size is gunicorn's own: here a head has limits, and not each field of it"),
    Room("gunicorn", ("invalid/019",), "accept", "RFC 9110 5.1",
         "forwarded_allow_ips is gunicorn's own: fields that no setting names are not believed, nor compared"),
    Room("gunicorn", ("invalid/040", "invalid/chunked_07"), "accept", "RFC 9110 5.1",
         "header_map=refuse is gunicorn's own: a name with `_` is a token; such a field is dropped"),
    Room("gunicorn", ("valid/pp_03",), "refuse", "proxy-protocol.txt 2",
         "a receiver must not guess whether there is a PROXY header; it aborts the connection"),
    Room("gunicorn", ("invalid/pp_*",), "close", "proxy-protocol.txt 2",
         "what is no PROXY header is no HTTP either, so no answer of HTTP is due; the connection is aborted"),
    Room("gunicorn", ("invalid/041",), "accept", "RFC 9110 8.3", "Content-Type twice: left open; both are joined"),
    Room("gunicorn", ("invalid/rfc9112_bare_lf_01", "invalid/invalid_field_value_01"), "accept", "RFC 9112 2.2",
         "a bare LF may end a line of a head"),
    Room("gunicorn", ("invalid/rfc9112_leading_crlf_02",), "accept", "RFC 9112 2.2",
         "at least one empty line before a request line should be ignored"),
    Room("gunicorn", ("invalid/version_02",), "accept", "RFC 9110 2.5", "505 is what a server can answer, not must"),
    Room("gunicorn", ("invalid/rfc9112_smuggle_cl_te_chunked_01", "invalid/rfc9112_te_identity_with_cl_01",
                      "invalid/chunked_02"), "accept", "RFC 9112 6.3",
         "with both framings a server may go by Transfer-Encoding, if it closes afterwards"),
    Room("gunicorn", ("invalid/rfc9112_smuggle_cl_list_form_01",), "accept", "RFC 9112 6.3",
         "a list of equal lengths may be taken as one"),
    Room("gunicorn", ("invalid/chunked_05",), "accept", "RFC 9112 6.1",
         "Transfer-Encoding on HTTP/1.0 is faulty framing, but may be processed before the close"),
    Room("gunicorn", ("invalid/rfc9110_field_value_ctl_*",), "accept", "RFC 9110 5.5",
         "controls but CR, LF and NUL may be kept"),
    Room("gunicorn", ("invalid/rfc9110_trailer_forbidden_*",), "accept", "RFC 9110 6.5.1", "trailers may be ignored"),
    Room("gunicorn", ("invalid/obs_fold_01", "invalid/013"), "accept", "RFC 9112 5.2",
         "obs-fold is refused or replaced"),
    Room("llhttp", ("invalid: HTTP protocol and ANNOUNCE method", "invalid: Invalid method"), "accept",
         "RFC 9110 9.1", "any token is a method; the application answers 405"),
    Room("llhttp", ("invalid: *LF*", "invalid: Missing CR between headers", "sample: Line folding * with LF"), "accept",
         "RFC 9112 2.2", "a bare LF may end a line of a head"),
    Room("llhttp", ("content-length: Error on simultaneous *",
                    "transfer-encoding: POST with `Transfer-Encoding` and *"), "accept", "RFC 9112 6.3",
         "a server may go by Transfer-Encoding, if it closes afterwards"),
    Room("llhttp", ("invalid: Spaces before headers",), "accept", "RFC 9112 5.2", "obs-fold is refused or replaced"),
    Room("llhttp", ("lenient-*",), "accept", "RFC 9110 5.5", "controls but CR, LF and NUL may be kept"),
    Room("desync", ("severe: Multiline headers are deprecated*",), "accept", "RFC 9112 5.2",
         "obs-fold is refused or replaced"),
    Room("desync", ("severe: Http Engine missed CR",), "accept", "RFC 9112 2.2", "a bare LF may end a line of a head"),
    # Our own choices.
    Room("corpus", ("invalid/*too-l*", "invalid/*too-many*", "invalid/*201-fields", "invalid/*over-max*",
                    "invalid/head-one-large-field", "invalid/*-endless", "invalid/chunk-extensions-total*",
                    "invalid/chunk-size-second"), "accept", "RFC 9110 5.4", "a server sets its own limits"),
    Room("corpus", ("invalid/line-*lf*", "invalid/field-value-bare-lf", "invalid/head-*-bare-lf",
                    "invalid/incomplete-*-bare-lf", "invalid/coding-bare-lf"), "accept", "RFC 9112 2.2",
         "a bare LF may end a line of a head"),
    Room("corpus", ("invalid/line-two-leading-crlf", "invalid/pipelined-two-crlf-between"), "accept", "RFC 9112 2.2",
         "at least one empty line before a request line should be ignored"),
    Room("corpus", ("invalid/length-duplicate-same", "invalid/length-duplicate-case", "invalid/length-list",
                    "invalid/length-list-space"), "accept", "RFC 9112 6.3", "equal lengths may be taken as one"),
    Room("corpus", ("invalid/coding-and-length*",), "accept", "RFC 9112 6.3",
         "a server may go by Transfer-Encoding, if it closes afterwards"),
    Room("corpus", ("invalid/coding-1.0*",), "accept", "RFC 9112 6.1", "may be processed before the close"),
    Room("corpus", ("invalid/obs-fold-*", "invalid/incomplete-fold"), "accept", "RFC 9112 5.2",
         "obs-fold is refused or replaced"),
    Room("corpus", ("invalid/trailer-forbidden-*",), "accept", "RFC 9110 6.5.1", "trailers may be ignored"),
    Room("corpus", ("invalid/expect-*",), "accept", "RFC 9110 10.1.1", "417 is what a server may answer"),
    Room("corpus", ("invalid/field-value-[defuv]*", "invalid/field-value-control", "invalid/field-value-backspace"),
         "accept", "RFC 9110 5.5", "controls but CR, LF and NUL may be kept"),
    Room("corpus", ("invalid/method-connect",), "accept", "RFC 9110 9.3.6", "501 is one answer to CONNECT"),
    Room("corpus", ("invalid/version-[239].[09]", "invalid/pipelined-second-http2"), "accept", "RFC 9110 2.5",
         "505 is what a server can answer, not must"),
    Room("corpus", ("invalid/line-two-spaces-*", "invalid/line-tab-*", "invalid/line-trailing-space"), "accept",
         "RFC 9112 3", "a lenient parser may split at whitespace"),
    Room("corpus", ("valid/*large*", "valid/*-8192", "valid/*4000*", "valid/field-200"), "refuse", "RFC 9110 5.4",
         "a server sets its own limits"),
)
# fmt: on


def room_of(case: Case) -> Room | None:
    """The room that the specification leaves in a case."""
    for room in ROOM:
        if room.suite == case.suite and any(fnmatchcase(case.name, pattern) for pattern in room.cases):
            return room
    return None
