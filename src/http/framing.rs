//! How long a request body is: RFC 9112 section 6.3, as far as it concerns requests, refusing what it lets a server repair.

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

/// What the fields of one head said about framing so far.
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
}

impl FramingFields {
    /// Note a Content-Length field. A second one is refused even if it says the same: 6.3 step 5 lets a recipient
    /// repair that, and two recipients that repair differently are how requests get smuggled.
    pub fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        if self.length.is_some() {
            return Err(Reject::bad("there is more than one Content-Length"));
        }
        self.length = Some(decimal(value).ok_or(Reject::bad("Content-Length is not a number of at most 63 bits"))?);
        Ok(())
    }

    /// Note a Transfer-Encoding field (RFC 9112 6.1).
    pub fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Reject> {
        for member in members(value) {
            let (name, parameters) = member.split_at(memchr(b';', member).unwrap_or(member.len()));
            let is_chunked = trim(name).eq_ignore_ascii_case(b"chunked");
            // `chunked` has no parameters (RFC 9112 7.1).
            if !is_token(trim(name)) || self.coding == Coding::Chunked || (is_chunked && !parameters.is_empty()) {
                return Err(Reject::bad("Transfer-Encoding is malformed, or chunked is not its last and plain coding"));
            }
            self.coding = match self.coding {
                Coding::Absent if is_chunked => Coding::Chunked,
                _ => Coding::Unknown,
            };
        }
        Ok(())
    }

    /// The verdict at the end of the head.
    pub fn decide(&self, is_http_10: bool) -> Result<BodyFraming, Reject> {
        match (self.coding, self.length) {
            // 6.1: a Transfer-Encoding in HTTP/1.0 is faulty framing.
            (Coding::Chunked | Coding::Unknown, _) if is_http_10 => Err(Reject::bad("Transfer-Encoding in HTTP/1.0")),
            // 6.3 step 3: both fields are an attempt at request smuggling.
            (Coding::Chunked | Coding::Unknown, Some(_)) => {
                Err(Reject::bad("there are both Transfer-Encoding and Content-Length"))
            }
            (Coding::Unknown, None) => Err(Reject::UNKNOWN_CODING),
            (Coding::Chunked, None) => Ok(BodyFraming::Chunked),
            (Coding::Absent, Some(length)) => Ok(BodyFraming::Length(length)),
            (Coding::Absent, None) => Ok(BodyFraming::None),
        }
    }
}
