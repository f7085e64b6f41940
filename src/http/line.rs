//! The position in a line that has no LF yet: enough of the grammar to refuse the first byte that no later byte can
//! mend.
//!
//! Whole lines are read by [`super::head_parser`] and [`super::framing`], which are faster. Here each byte is a step,
//! so that a line that comes byte by byte costs as much as one that comes whole. Both refuse the same bytes with the
//! same status; the tests below hold them to that.

use super::grammar::{is_reg_name_byte, is_target_byte, is_tchar, is_value_byte};
use super::reject::Reject;

/// A place in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Before the request line.
    #[default]
    Start,
    /// Before the request line, behind the one empty line that may precede it (RFC 9112 2.2).
    SecondStart,
    /// In the method.
    Method,
    /// Before the target.
    TargetStart,
    /// Before the target of CONNECT, which is not checked (RFC 9112 3.2.3).
    AuthorityStart,
    /// In the target.
    Target,
    /// Behind a target of `*`.
    Asterisk,
    /// After this many bytes of `http://` or, one more from its `s` on, of `https://`.
    Scheme(u8),
    /// In the authority of an absolute target (RFC 9112 3.2.2).
    Authority(Host),
    /// After this many bytes of `HTTP/1.1`.
    Version(u8),
    /// After this many bytes behind the first digit of `HTTP/2.0` or another later version.
    Later(u8),
    /// Before a field line, or before the blank line.
    FieldStart,
    /// In a field name.
    Name,
    /// In a field value.
    Value,
    /// In the value of Host.
    HostValue(Host),
    /// In the value of Content-Length.
    LengthValue(Length),
    /// In the value of Transfer-Encoding.
    CodingValue(Coding),
    /// After the CR.
    Cr,
}

/// A place in `uri-host [ ":" port ]`, see [`super::grammar::is_host`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Before it.
    Start,
    /// In a name.
    Name,
    /// In a name, after `%` and this many digits.
    Escape(u8),
    /// Between brackets; the caller checks that an address stands there.
    Literal,
    /// Behind the brackets.
    LiteralEnd,
    /// In the port, which has this value and this many digits so far.
    Port(u32, u8),
    /// In the whitespace behind it.
    End,
}

impl Host {
    fn step(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Start, b'[') => Self::Literal,
            (Self::Start | Self::Name, b'%') => Self::Escape(0),
            (Self::Start | Self::Name, _) if is_reg_name_byte(byte) => Self::Name,
            (Self::Escape(0), _) if byte.is_ascii_hexdigit() => Self::Escape(1),
            (Self::Escape(_), _) if byte.is_ascii_hexdigit() => Self::Name,
            (Self::Literal, b']') => Self::LiteralEnd,
            (Self::Literal, b':' | b'.') => self,
            (Self::Literal, _) if byte.is_ascii_hexdigit() => self,
            (Self::Name | Self::LiteralEnd, b':') => Self::Port(0, 0),
            (Self::Port(port, digits), b'0'..=b'9') => {
                let port = port * 10 + u32::from(byte - b'0');
                return (digits < 5 && port <= 65535).then_some(Self::Port(port, digits + 1));
            }
            _ => return None,
        })
    }

    /// Whether it may end here.
    fn is_whole(self) -> bool {
        matches!(self, Self::Name | Self::LiteralEnd | Self::Port(..) | Self::End)
    }
}

/// A place in digits of at most 63 bits, see [`super::grammar::decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Before them.
    Start,
    /// Behind digits of this value.
    Digits(u64),
    /// In the whitespace behind them.
    End,
}

/// A place in codings, see [`super::framing::FramingFields::transfer_encoding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Before one.
    Start,
    /// In a name that has this many bytes of `chunked` so far; 8: another name.
    Name(u8),
    /// In the whitespace after a name; whether that was `chunked`.
    NameEnd(bool),
    /// In parameters.
    Parameters,
}

const CHUNKED: &[u8; 7] = b"chunked";
const OTHER: u8 = 8;

impl Coding {
    fn step(self, byte: u8) -> Option<Self> {
        let is_chunked = self == Self::Name(7) || self == Self::NameEnd(true);
        Some(match (self, byte) {
            (Self::Start | Self::NameEnd(_), b' ' | b'\t') => self,
            (Self::Start, _) if is_tchar(byte) => Self::Name(0).step(byte)?,
            (Self::Name(at), _) if is_tchar(byte) => {
                let is_next = CHUNKED.get(usize::from(at)).is_some_and(|next| next.eq_ignore_ascii_case(&byte));
                Self::Name(if is_next { at + 1 } else { OTHER })
            }
            (Self::Name(_), b' ' | b'\t') => Self::NameEnd(is_chunked),
            // Nothing comes behind `chunked`, which has no parameters.
            (Self::Name(_) | Self::NameEnd(_), b',') if !is_chunked => Self::Start,
            (Self::Name(_) | Self::NameEnd(_), b';') if !is_chunked => Self::Parameters,
            (Self::Parameters, b',') => Self::Start,
            (Self::Parameters, _) if is_value_byte(byte) => self,
            _ => return None,
        })
    }
}

impl At {
    /// Before the value of Host.
    pub const HOST: Self = Self::HostValue(Host::Start);
    /// Before the value of Content-Length.
    pub const LENGTH: Self = Self::LengthValue(Length::Start);
    /// Before the value of Transfer-Encoding.
    pub const CODING: Self = Self::CodingValue(Coding::Start);

    /// Before the target of this method.
    pub fn target_of(method: &[u8]) -> Self {
        if method == b"CONNECT" { Self::AuthorityStart } else { Self::TargetStart }
    }

    /// Whether it is between the brackets of an address.
    pub fn is_in_literal(self) -> bool {
        matches!(self, Self::HostValue(Host::Literal) | Self::Authority(Host::Literal))
    }

    /// The position after `byte`, which is not LF (RFC 9112 3, 5 and 2.2: a bare CR is always wrong).
    pub fn step(self, byte: u8) -> Result<Self, Reject> {
        let next = match self {
            Self::TargetStart | Self::AuthorityStart | Self::Target | Self::Asterisk => self.in_target(byte),
            Self::Scheme(_) | Self::Authority(_) => self.in_absolute_target(byte),
            Self::Version(_) | Self::Later(_) => return self.in_version(byte),
            Self::HostValue(_) | Self::LengthValue(_) | Self::CodingValue(_) => self.in_known_value(byte),
            Self::Start | Self::FieldStart | Self::Value if byte == b'\r' => Some(Self::Cr),
            Self::Start if byte == HANDSHAKE => return Err(TLS),
            Self::Start | Self::SecondStart | Self::Method if is_tchar(byte) => Some(Self::Method),
            Self::FieldStart | Self::Name if is_tchar(byte) => Some(Self::Name),
            Self::Name if byte == b':' => Some(Self::Value),
            Self::Value if is_value_byte(byte) => Some(Self::Value),
            _ => None,
        };
        next.ok_or(WRONG)
    }

    /// In a target of another form than the absolute one (RFC 9112 3.2).
    fn in_target(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::TargetStart, b'/') => Self::Target,
            (Self::TargetStart, b'*') => Self::Asterisk,
            (Self::TargetStart, b'h' | b'H') => Self::Scheme(1),
            (Self::AuthorityStart | Self::Target, _) if is_target_byte(byte) => Self::Target,
            (Self::Target | Self::Asterisk, b' ') => Self::Version(0),
            _ => return None,
        })
    }

    /// In an absolute target (RFC 9112 3.2.2, RFC 9110 4.2).
    fn in_absolute_target(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Scheme(4), b's' | b'S') => Self::Scheme(5),
            (Self::Scheme(at @ 1..=3), _) if b"http".get(usize::from(at))?.eq_ignore_ascii_case(&byte) => {
                Self::Scheme(at + 1)
            }
            (Self::Scheme(4 | 5), b':') => Self::Scheme(6),
            (Self::Scheme(6), b'/') => Self::Scheme(7),
            (Self::Scheme(7), b'/') => Self::Authority(Host::Start),
            (Self::Authority(host), b' ') if host.is_whole() => Self::Version(0),
            (Self::Authority(host), b'/' | b'?') if host.is_whole() => Self::Target,
            (Self::Authority(host), _) => Self::Authority(host.step(byte)?),
            _ => return None,
        })
    }

    /// In `HTTP/1.1` (RFC 9112 2.3).
    fn in_version(self, byte: u8) -> Result<Self, Reject> {
        match (self, byte) {
            (Self::Version(8), b'\r') => Ok(Self::Cr),
            // No minor version is right after the major version 0.
            (Self::Version(at @ 5), b'1') | (Self::Version(at @ 7), b'0'..=b'9') => Ok(Self::Version(at + 1)),
            (Self::Version(5), b'2'..=b'9') => Ok(Self::Later(0)),
            (Self::Version(at @ (0..=4 | 6)), _) if b"HTTP/1.".get(usize::from(at)) == Some(&byte) => {
                Ok(Self::Version(at + 1))
            }
            (Self::Later(0), b'.') => Ok(Self::Later(1)),
            (Self::Later(1), b'0'..=b'9') => Err(Reject::VERSION),
            _ => Err(WRONG),
        }
    }

    /// In the value of a field that steers the exchange.
    fn in_known_value(self, byte: u8) -> Option<Self> {
        let is_blank = byte == b' ' || byte == b'\t';
        Some(match self {
            Self::HostValue(Host::Start) if is_blank => self,
            Self::HostValue(host) if is_blank && host.is_whole() => Self::HostValue(Host::End),
            Self::HostValue(host) if byte == b'\r' && host.is_whole() => Self::Cr,
            Self::HostValue(host) => Self::HostValue(host.step(byte)?),
            Self::LengthValue(length) => match (length, byte) {
                (Length::Start | Length::End, _) if is_blank => self,
                (Length::Start, b'0'..=b'9') => Self::LengthValue(Length::Digits(u64::from(byte - b'0'))),
                (Length::Digits(number), b'0'..=b'9') => {
                    let number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                    return (number >> 63 == 0).then_some(Self::LengthValue(Length::Digits(number)));
                }
                (Length::Digits(_), _) if is_blank => Self::LengthValue(Length::End),
                (Length::Digits(_) | Length::End, b'\r') => Self::Cr,
                _ => return None,
            },
            Self::CodingValue(coding) if byte == b'\r' && coding != Coding::Start => Self::Cr,
            Self::CodingValue(coding) => Self::CodingValue(coding.step(byte)?),
            _ => return None,
        })
    }
}

const WRONG: Reject = Reject::bad("a byte is not allowed at its place in the head");
/// The first byte of a TLS record (RFC 8446 5.1): the client asks for https.
const HANDSHAKE: u8 = 22;
const TLS: Reject = Reject::bad("the client speaks TLS, and this is http: https needs a proxy in front");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::framing::FramingFields;
    use crate::http::grammar::{decimal, is_host, trim};

    /// Whether all bytes of a value, and the CR behind them, are in their place.
    fn ends(begin: At, value: &[u8]) -> bool {
        value.iter().chain(b"\r").try_fold(begin, |at, &byte| at.step(byte)) == Ok(At::Cr)
    }

    /// All values of up to so many of these bytes.
    fn values(bytes: &[u8], length: usize) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..length {
            let longer: Vec<_> = all[from..]
                .iter()
                .flat_map(|value| bytes.iter().map(move |&byte| [value, &[byte][..]].concat()))
                .collect();
            from = all.len();
            all.extend(longer);
        }
        all
    }

    #[test]
    fn a_host_is_one_byte_by_byte_too() {
        for value in values(b"a%1:] \t,/", 6) {
            assert_eq!(ends(At::HOST, &value), is_host(trim(&value)), "{}", value.escape_ascii());
        }
        for port in 0..70_000 {
            let value = format!("a:{port}");
            assert_eq!(ends(At::HOST, value.as_bytes()), is_host(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn a_length_is_one_byte_by_byte_too() {
        let mut all = values(b"09 \t+x", 5);
        for number in ["9223372036854775807", "9223372036854775808", "18446744073709551616", "99999999999999999999"] {
            all.extend([number.into(), format!("000{number}").into()]);
        }
        for value in all {
            assert_eq!(ends(At::LENGTH, &value), decimal(trim(&value)).is_some(), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn codings_are_such_byte_by_byte_too() {
        let words: [&[u8]; 9] = [b"chunked", b"CHUNKED", b"chunke", b"x", b",", b";", b" ", b"\t", b"\""];
        for picked in values(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 5) {
            let value: Vec<u8> = picked.iter().flat_map(|&word| words[usize::from(word)]).copied().collect();
            let whole = FramingFields::default().transfer_encoding(&value, false).is_ok();
            assert_eq!(ends(At::CODING, &value), whole, "{}", value.escape_ascii());
        }
    }
}
