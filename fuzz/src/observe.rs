//! What the targets share: how their input is laid out, and what is seen of a connection that is fed with it.
//!
//! The first byte of an input chooses the limits ('0': the defaults, '1': tight ones, so that a short input meets them);
//! the rest is what a client sends, in pieces that [`CUT`] separates, so that the fuzzer chooses the cuts by moving two
//! bytes about. What is seen is the same for all ways of cutting, or the engine is wrong.

#[allow(dead_code)] // Only its limits are of use here.
#[path = "../../tests/seen/mod.rs"]
mod seen;

use _engine::http::framing::BodyFraming;
use _engine::http::head::{Field, RequestHead, Version};
use _engine::http::protocol::{Inbound, Step};
use _engine::limits::Limits;

/// Ends a piece. No character of UTF-8 and nothing that a grammar of HTTP names, so hardly a loss.
pub const CUT: &[u8] = b"\xff\xfe";

/// The limits that `choice` stands for.
pub fn limits(choice: u8) -> Limits {
    let defaults = seen::limits();
    if choice & 1 == 0 {
        return defaults;
    }
    Limits { max_request_line: 24, max_head: 96, max_fields: 4, max_body: 20, ..defaults }
}

/// The limits, and the pieces that are sent.
pub fn layout(input: &[u8]) -> (Limits, Vec<&[u8]>) {
    let (choice, mut rest) = input.split_first().map_or((b'0', input), |(choice, rest)| (*choice, rest));
    let mut pieces = Vec::new();
    while let Some(at) = rest.windows(CUT.len()).position(|window| window == CUT) {
        pieces.push(&rest[..at]);
        rest = &rest[at + CUT.len()..];
    }
    pieces.push(rest);
    (limits(choice), pieces)
}

/// A request as the application would meet it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Request {
    pub method: Vec<u8>,
    pub target: Vec<u8>,
    pub path: Vec<u8>,
    pub query: Vec<u8>,
    pub is_http_10: bool,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub host: Option<Vec<u8>>,
    pub framing: BodyFraming,
    pub persistent: bool,
    pub expects_continue: bool,
    pub asterisk: bool,
    pub body: Vec<u8>,
}

impl Request {
    /// What `head` says, whose spans point into `bytes`.
    pub fn new(head: &RequestHead, bytes: &[u8], body: &[u8]) -> Self {
        let field = |field: &Field| (field.name.of(bytes).to_vec(), field.value.of(bytes).to_vec());
        Self {
            method: head.method.of(bytes).to_vec(),
            target: head.target.of(bytes).to_vec(),
            path: head.path.of(bytes).to_vec(),
            query: head.query.of(bytes).to_vec(),
            is_http_10: head.version == Version::Http10,
            fields: head.fields.iter().map(field).collect(),
            host: head.host.map(|host| host.of(bytes).to_vec()),
            framing: head.framing,
            persistent: head.persistent,
            expects_continue: head.expects_continue,
            asterisk: head.asterisk,
            body: body.to_vec(),
        }
    }

    /// The plainest bytes that say the same, never longer than the head that said it.
    pub fn canonical(&self) -> Vec<u8> {
        let version: &[u8] = if self.is_http_10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" };
        let mut bytes = [&self.method, b" ".as_slice(), &self.target, version].concat();
        for (name, value) in &self.fields {
            bytes.extend([name, b":".as_slice(), value, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        if self.framing != BodyFraming::Chunked {
            bytes.extend_from_slice(&self.body);
            return bytes;
        }
        if !self.body.is_empty() {
            _engine::http::response::chunk(&mut bytes, &self.body);
        }
        bytes.extend_from_slice(_engine::http::response::LAST_CHUNK);
        bytes
    }
}

/// How a connection stands at the end of what was sent.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum End {
    /// With the status of a refusal.
    Refused(u16),
    /// Its last request was the last one that it serves.
    Closed,
    /// Waiting for more.
    Open { has_begun: bool, in_body: bool, body: Vec<u8>, body_received: u64 },
}

/// The requests in order, and the end.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Seen {
    pub requests: Vec<Request>,
    pub end: End,
}

/// Feed `pieces`, one read each. Also holds the engine to sending 100 at most once a request, and only where it is
/// awaited; how often depends on the cuts, so it is no part of what is seen.
pub fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: &Limits) -> Seen {
    let mut inbound = Inbound::<Vec<u8>>::default();
    let mut requests = Vec::new();
    let mut continued = false;
    for piece in pieces {
        inbound.buffer().extend_from_slice(piece);
        loop {
            match inbound.advance(limits) {
                Ok(Step::More) => break,
                Ok(Step::Continue) => {
                    assert!(!continued && inbound.head().expects_continue && inbound.in_body());
                    continued = true;
                }
                Ok(Step::Whole) => {
                    let (head, bytes, body) = inbound.request();
                    requests.push(Request::new(head, bytes, body));
                    if !inbound.head().persistent {
                        return Seen { requests, end: End::Closed };
                    }
                    continued = false;
                    inbound.next_request();
                }
                Err(reject) => return Seen { requests, end: End::Refused(reject.status) },
            }
        }
    }
    let (has_begun, in_body) = (inbound.has_begun(), inbound.in_body());
    let body_received = inbound.body_received;
    Seen { requests, end: End::Open { has_begun, in_body, body: inbound.body, body_received } }
}
