"""The words that go with a status number (RFC 9110 section 15 and the registry).

Knows numbers and words only. Contract: `status_line(code)` is what `start_response` takes.
"""

from __future__ import annotations

REASONS = {
    100: "Continue",
    101: "Switching Protocols",
    102: "Processing",
    103: "Early Hints",
    200: "OK",
    201: "Created",
    202: "Accepted",
    203: "Non-Authoritative Information",
    204: "No Content",
    205: "Reset Content",
    206: "Partial Content",
    207: "Multi-Status",
    208: "Already Reported",
    226: "IM Used",
    300: "Multiple Choices",
    301: "Moved Permanently",
    302: "Found",
    303: "See Other",
    304: "Not Modified",
    305: "Use Proxy",
    307: "Temporary Redirect",
    308: "Permanent Redirect",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    409: "Conflict",
    410: "Gone",
    411: "Length Required",
    412: "Precondition Failed",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    416: "Range Not Satisfiable",
    417: "Expectation Failed",
    418: "I'm a teapot",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    423: "Locked",
    424: "Failed Dependency",
    425: "Too Early",
    426: "Upgrade Required",
    428: "Precondition Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    451: "Unavailable For Legal Reasons",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
    506: "Variant Also Negotiates",
    507: "Insufficient Storage",
    508: "Loop Detected",
    510: "Not Extended",
    511: "Network Authentication Required",
}


class _Lines(dict[int, str]):
    """`404` -> `404 Not Found`; a number without a registered word gets the word of its class (RFC 9110 section 15).

    Raises ValueError for what is not a final status, 200 to 599.
    """

    def __missing__(self, code: int) -> str:
        if not isinstance(code, int) or not 200 <= code <= 599:
            raise ValueError(f"the status of an answer is a number from 200 to 599, not {code!r}")
        return f"{int(code)} {REASONS[code // 100 * 100]}"


# In the usual case no Python runs for it.
status_line = _Lines({code: f"{code} {reason}" for code, reason in REASONS.items() if code >= 200}).__getitem__
