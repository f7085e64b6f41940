//! Why the server refuses a request, and the status of that answer.
//!
//! Each reason names the section that demands or allows it. Most are faults of the client.

/// Why a request is refused. The application does not see the request, except of [`Reject::UNANSWERED`]. The connection
/// ends after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The status code of the answer.
    pub status: u16,
    /// For the log and for the answer's body; never holds a byte that the peer sent.
    pub why: &'static str,
    /// The error number of the system that caused it, for the log; 0 if the client caused it.
    pub errno: i32,
}

impl Reject {
    pub(super) const fn new(status: u16, why: &'static str) -> Self {
        Self { status, why, errno: 0 }
    }

    /// 400, RFC 9110 15.5.1.
    pub const fn bad(why: &'static str) -> Self {
        Self::new(400, why)
    }

    /// 408, RFC 9110 15.5.9.
    pub const fn late(why: &'static str) -> Self {
        Self::new(408, why)
    }

    /// 413, RFC 9110 15.5.14.
    pub const BODY_TOO_LARGE: Self = Self::new(413, "the body is larger than max_body");
    /// 414, RFC 9110 15.5.15.
    pub const LINE_TOO_LONG: Self = Self::new(414, "the request line is longer than max_request_line");
    /// 417, RFC 9110 15.5.18.
    pub const UNKNOWN_EXPECTATION: Self = Self::new(417, "Expect holds something other than 100-continue");
    /// 431, RFC 6585 5.
    pub const HEAD_TOO_LARGE: Self = Self::new(431, "the head is larger than max_head");
    /// 431, RFC 6585 5.
    pub const TOO_MANY_FIELDS: Self = Self::new(431, "there are more fields than max_fields");
    /// 500, RFC 9110 15.6.1: not a fault of the client.
    pub const UNANSWERED: Self = Self::new(500, "the server failed to answer");
    /// 501, RFC 9112 6.1.
    pub const UNKNOWN_CODING: Self = Self::new(501, "Transfer-Encoding holds a coding other than chunked");
    /// 501, RFC 9110 9.3.6: a server that does not tunnel.
    pub const CONNECT: Self = Self::new(501, "CONNECT is for proxies");
    /// 503, RFC 9110 15.6.4: the temporary file for the body could not be written, because of this error number.
    pub const fn no_storage(errno: i32) -> Self {
        Self { errno, ..Self::new(503, "the body could not be kept in a temporary file") }
    }
    /// 503, RFC 9110 15.6.4: more connections than `max_connections_per_address`.
    pub const TOO_MANY_CONNECTIONS: Self = Self::new(503, "too many connections from this address");
    /// 501, RFC 9112 3: the method is longer than any that a server knows.
    pub const METHOD_TOO_LONG: Self = Self::new(501, "the method is longer than max_request_line");
    /// 505, RFC 9110 15.6.6.
    pub const VERSION: Self = Self::new(505, "the HTTP version is not 1.x");

    /// The reason phrase of `status`.
    pub const fn reason(self) -> &'static str {
        match self.status {
            408 => "Request Timeout",
            413 => "Content Too Large",
            414 => "URI Too Long",
            417 => "Expectation Failed",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            _ => "Bad Request",
        }
    }
}
