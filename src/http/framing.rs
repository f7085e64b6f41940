//! How long a request body is: RFC 9112 section 6.3, for requests. Requests that it lets a server repair are refused instead.

use memchr::memchr;

use super::grammar::{decimal, is_token, members, trim};
use super::reject::Reject;

/// The three ways in which a request body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body (6.3 step 7).
    #[default]
    None,
    /// Content-Length bytes (6.3 step 6).
    Length(u64),
    /// Transfer-Encoding: chunked (6.3 step 4).
    Chunked,
}

const CODING: Reject = Reject::bad("Transfer-Encoding is malformed, or chunked is not its last and plain coding");
const BOTH: Reject = Reject::bad("there are both Transfer-Encoding and Content-Length");

/// What the fields of a head have said about framing so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramingFields {
    length: Option<u64>,
    coding: Coding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Coding {
    #[default]
    Absent,
    Chunked,
    Unknown,
    UnknownThenChunked,
}

impl FramingFields {
    /// Note a Content-Length field (RFC 9110 8.6). A second one is refused even if it says the same: 6.3 step 5 lets a
    /// recipient repair that, and two recipients that repair differently let an attacker smuggle a request. Beside
    /// Transfer-Encoding it is such an attack (6.3 step 3).
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        self.begin_length()?;
        self.length = Some(decimal(value).ok_or(Reject::bad("Content-Length is not a number of at most 63 bits"))?);
        Ok(())
    }

    /// Refuse a Content-Length field that is wrong with any value (RFC 9112 6.3 steps 3 and 5).
    pub fn begin_length(&self) -> Result<(), Reject> {
        if self.coding != Coding::Absent {
            return Err(BOTH);
        }
        if self.length.is_some() {
            return Err(Reject::bad("there is more than one Content-Length"));
        }
        Ok(())
    }

    /// Note a Transfer-Encoding field (RFC 9112 6.1), which HTTP/1.0 does not have.
    pub fn transfer_encoding(&mut self, value: &[u8], is_http_10: bool) -> Result<(), Reject> {
        self.begin_coding(is_http_10)?;
        for member in members(value) {
            let (name, parameters) = member.split_at(memchr(b';', member).unwrap_or(member.len()));
            let is_chunked = trim(name).eq_ignore_ascii_case(b"chunked");
            // `chunked` has no parameters (7.1).
            if !is_token(trim(name)) || self.is_over() || (is_chunked && !parameters.is_empty()) {
                return Err(CODING);
            }
            self.coding = match (self.coding, is_chunked) {
                (Coding::Absent, true) => Coding::Chunked,
                (_, true) => Coding::UnknownThenChunked,
                (_, false) => Coding::Unknown,
            };
        }
        Ok(())
    }

    /// Refuse a Transfer-Encoding field that is wrong with any value (RFC 9112 6.1, 6.3 step 3).
    pub fn begin_coding(&self, is_http_10: bool) -> Result<(), Reject> {
        if is_http_10 {
            return Err(Reject::bad("Transfer-Encoding in HTTP/1.0"));
        }
        if self.length.is_some() {
            return Err(BOTH);
        }
        if self.is_over() { Err(CODING) } else { Ok(()) }
    }

    /// Nothing comes after `chunked` (6.1).
    fn is_over(&self) -> bool {
        matches!(self.coding, Coding::Chunked | Coding::UnknownThenChunked)
    }

    /// The verdict at the end of the head (6.3). A coding that is well-formed but unknown is refused only here (501,
    /// 6.1): it is not a fault, and a fault in a later field comes first.
    pub fn decide(&self) -> Result<BodyFraming, Reject> {
        match (self.coding, self.length) {
            (Coding::Absent, Some(length)) => Ok(BodyFraming::Length(length)),
            (Coding::Absent, None) => Ok(BodyFraming::None),
            (_, Some(_)) => Err(BOTH),
            (Coding::Chunked, None) => Ok(BodyFraming::Chunked),
            (Coding::Unknown | Coding::UnknownThenChunked, None) => Err(Reject::UNKNOWN_CODING),
        }
    }
}
