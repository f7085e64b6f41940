//! A request head as it was found: spans into the bytes that were received, so that nothing is copied.
//!
//! Knows no grammar; `head_parser` makes it.

use super::framing::BodyFraming;

/// A piece of the bytes that a head was parsed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(super) fn new(start: usize, length: usize) -> Self {
        // A head is never longer than max_head, far below 4 GiB.
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        Self { start, end: start.saturating_add(u32::try_from(length).unwrap_or(0)) }
    }

    /// The piece itself. `bytes` must begin where the bytes of the parser began.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The versions that are served. A later 1.x is served as 1.1 (RFC 9110 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Version {
    Http10,
    #[default]
    Http11,
}

/// A field line: RFC 9112 section 5.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Field {
    pub name: Span,
    pub value: Span,
}

/// A request head.
#[derive(Debug, Default)]
pub struct RequestHead {
    /// The method, a token.
    pub method: Span,
    /// The request target as sent.
    pub target: Span,
    /// The path of the target; empty if an absolute target has none.
    pub path: Span,
    /// What follows the first `?` of the target.
    pub query: Span,
    /// The HTTP version.
    pub version: Version,
    /// All fields in order, except two kinds that mean something else as `HTTP_` variables: a name with an underscore
    /// (`X_User` would become `X-User`), and Proxy (`HTTP_PROXY` tells many programs which proxy to use, "httpoxy").
    pub fields: Vec<Field>,
    /// How many fields of those two kinds there were.
    pub dropped: u32,
    /// Host, or the authority of an absolute target, which replaces it (RFC 9112 3.2.2).
    pub host: Option<Span>,
    /// How the body ends.
    pub framing: BodyFraming,
    /// The connection may serve another request after this one (RFC 9112 9.3).
    pub persistent: bool,
    /// The client waits for 100 before it sends the body (RFC 9110 10.1.1).
    pub expects_continue: bool,
    /// The target is `*` (RFC 9112 3.2.4), which only OPTIONS may have.
    pub asterisk: bool,
}

impl RequestHead {
    /// The version and the field lines as sent, up to the last value. Never empty.
    pub fn lines<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let end = self.fields.last().map_or(0, |last| last.value.end);
        Span { start: self.target.end, end: end.max(self.target.end) }.of(bytes)
    }

    /// Method and target, as sent.
    pub fn line<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        Span { start: self.method.start, end: self.target.end }.of(bytes)
    }
}
