//! Decoding request bodies: Content-Length and chunked (RFC 9112 section 7.1).
//!
//! A decoder gets the bytes as they come and returns the data among them. It keeps its position, and no data.

use super::framing::BodyFraming;
use super::grammar::{is_tchar, is_value_byte};
use super::line::At;
use super::reject::Reject;
use crate::limits::Limits;

/// The most digits of a chunk size, which hold 64 bits.
const DIGITS: u8 = 16;
/// Longest line of chunk extensions, in bytes (RFC 9112 7.1.1 asks for a limit). Zeros before a size count too, once
/// they are more than fill its sixteen digits.
const MAX_EXTENSION: usize = 4 * 1024;
/// Chunk extensions of a whole body, in bytes. Each has at least two, so that their number is limited too.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Trailers of a body, in bytes (RFC 9112 7.1.2).
const MAX_TRAILERS: usize = 16 * 1024;

/// Fields that must not be trailers: they frame, route or authorise (RFC 9110 6.5.1).
const FORBIDDEN_TRAILERS: [&[u8]; 14] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
];

/// One step of decoding.
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'b> {
    /// How many bytes of the input were used, data included.
    pub consumed: usize,
    /// A run of the body.
    pub data: &'b [u8],
    /// The body is complete; the rest of the input belongs to the next request.
    pub done: bool,
}

/// Reads one body.
#[derive(Debug)]
pub enum Decoder {
    /// This many bytes are left.
    Length(u64),
    /// In a chunked body.
    Chunked(Chunked),
}

impl Decoder {
    /// The decoder for `framing`; `None` if there is no body. Refuses a length beyond `max_body` before the body is
    /// read.
    pub fn new(framing: BodyFraming, limits: &Limits) -> Result<Option<Self>, Reject> {
        match framing {
            BodyFraming::None | BodyFraming::Length(0) => Ok(None),
            BodyFraming::Length(length) if length > limits.max_body => Err(Reject::BODY_TOO_LARGE),
            BodyFraming::Length(length) => Ok(Some(Self::Length(length))),
            BodyFraming::Chunked => Ok(Some(Self::Chunked(Chunked::default()))),
        }
    }

    /// How many bytes of data follow, if that is known.
    pub fn rest(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Chunked(_) => None,
        }
    }

    /// Use up some of `input`; call again with the rest until it is empty or the body is done.
    pub fn decode<'b>(&mut self, input: &'b [u8], limits: &Limits) -> Result<Decoded<'b>, Reject> {
        match self {
            Self::Length(left) => {
                let data = take(input, *left);
                *left -= data.len() as u64;
                Ok(Decoded { consumed: data.len(), data, done: *left == 0 })
            }
            Self::Chunked(chunked) => chunked.decode(input, limits),
        }
    }
}

fn take(input: &[u8], left: u64) -> &[u8] {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    input.get(..length).unwrap_or_default()
}

/// A position in a chunked body.
#[derive(Debug, Default)]
pub struct Chunked {
    state: State,
    /// Size of the chunk that is being read; inside its data, the number of bytes that are left.
    size: u64,
    digits: u8,
    total: u64,
    extension: usize,
    extensions: usize,
    trailers: usize,
    trailer_count: usize,
    name: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailer(At),
    TrailerLf,
    LastLf,
}

/// A position in the extensions of a chunk: `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// In the whitespace before the first `;`.
    Before,
    /// Before a name.
    Start,
    Name,
    /// In the whitespace behind a name.
    AfterName,
    /// Before a value.
    Value,
    Token,
    Quoted,
    /// Behind a backslash in a quoted string.
    Escaped,
    /// Behind a quoted string.
    AfterQuoted,
    /// In the whitespace behind a value.
    AfterValue,
}

impl Extension {
    /// Go on with `byte`, which is not the CR of the end.
    fn step(self, byte: u8) -> Option<Self> {
        let is_blank = byte == b' ' || byte == b'\t';
        Some(match (self, byte) {
            (Self::Quoted, b'"') => Self::AfterQuoted,
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::Quoted | Self::Escaped, _) if is_value_byte(byte) => Self::Quoted,
            (Self::Quoted | Self::Escaped, _) => return None,
            (Self::Before | Self::Start | Self::Value | Self::AfterName | Self::AfterValue, _) if is_blank => self,
            (Self::Start | Self::Name, _) if is_tchar(byte) => Self::Name,
            (Self::Name, _) if is_blank => Self::AfterName,
            (Self::Name | Self::AfterName, b'=') => Self::Value,
            (Self::Value, b'"') => Self::Quoted,
            (Self::Value | Self::Token, _) if is_tchar(byte) => Self::Token,
            (Self::Token | Self::AfterQuoted, _) if is_blank => Self::AfterValue,
            (Self::Before | Self::Name | Self::AfterName, b';') => Self::Start,
            (Self::Token | Self::AfterQuoted | Self::AfterValue, b';') => Self::Start,
            _ => return None,
        })
    }

    /// Whether the line may end here.
    const fn is_complete(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::AfterQuoted)
    }
}

impl Chunked {
    fn decode<'b>(&mut self, input: &'b [u8], limits: &Limits) -> Result<Decoded<'b>, Reject> {
        for (index, &byte) in input.iter().enumerate() {
            if self.state == State::Data {
                let data = take(input.get(index..).unwrap_or_default(), self.size);
                self.size -= data.len() as u64;
                if self.size == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Decoded { consumed: index + data.len(), data, done: false });
            }
            if self.state == State::LastLf {
                if byte != b'\n' {
                    // RFC 9112 7.1.
                    return Err(Reject::bad("the chunked body does not end with CRLF"));
                }
                return Ok(Decoded { consumed: index + 1, data: &[], done: true });
            }
            self.state = self.step(byte, limits)?;
        }
        Ok(Decoded { consumed: input.len(), data: &[], done: false })
    }

    fn step(&mut self, byte: u8, limits: &Limits) -> Result<State, Reject> {
        match self.state {
            State::Size => self.size_byte(byte, limits),
            State::Extension(extension) => self.extension_byte(extension, byte),
            State::SizeLf if byte == b'\n' => Ok(self.after_size()),
            // RFC 9112 7.1: CRLF ends each line of a chunked body; here 2.2 gives no leave to repair a bare LF.
            State::SizeLf => Err(Reject::bad("a chunk size does not end with CRLF")),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::Size),
            State::Trailer(at) => self.trailer_byte(at, byte, limits),
            State::TrailerLf if byte == b'\n' => Ok(State::Trailer(At::FieldStart)),
            State::TrailerLf => Err(Reject::bad("a trailer does not end with CRLF")),
            State::Data | State::DataCr | State::DataLf | State::LastLf => {
                Err(Reject::bad("chunk data is longer or shorter than its size says"))
            }
        }
    }

    /// `chunk-size`, RFC 9112 7.1: hexadecimal digits only, and no number that overflows.
    fn size_byte(&mut self, byte: u8, limits: &Limits) -> Result<State, Reject> {
        const MALFORMED: Reject = Reject::bad("a chunk size is not a hexadecimal number of at most 63 bits");
        if let Some(digit) = char::from(byte).to_digit(16) {
            if self.size >> 59 != 0 {
                return Err(MALFORMED);
            }
            if self.digits < DIGITS {
                self.digits += 1;
            } else {
                // Only leading zeros come here; the grammar allows any number of them.
                self.lengthen()?;
            }
            self.size = self.size << 4 | u64::from(digit);
            return Ok(State::Size);
        }
        let next = match byte {
            b';' if self.digits > 0 => State::Extension(Extension::Start),
            b' ' | b'\t' if self.digits > 0 => State::Extension(Extension::Before),
            b'\r' if self.digits > 0 => State::SizeLf,
            _ => return Err(MALFORMED),
        };
        if self.total.saturating_add(self.size) > limits.max_body {
            return Err(Reject::BODY_TOO_LARGE);
        }
        Ok(next)
    }

    /// Extensions have no effect. They are held to their grammar (RFC 9112 7.1.1), since a program with another grammar
    /// finds another end of the line, and to a length.
    fn extension_byte(&mut self, extension: Extension, byte: u8) -> Result<State, Reject> {
        self.lengthen()?;
        match byte {
            b'\r' if extension.is_complete() => Ok(State::SizeLf),
            _ => extension
                .step(byte)
                .map(State::Extension)
                .ok_or(Reject::bad("a chunk extension is not ;NAME or ;NAME=VALUE")),
        }
    }

    /// Count one more byte without effect, and refuse too many of them (RFC 9112 7.1.1).
    fn lengthen(&mut self) -> Result<(), Reject> {
        self.extension += 1;
        self.extensions += 1;
        if self.extension > MAX_EXTENSION {
            return Err(Reject::bad("the extensions of a chunk are too long"));
        }
        if self.extensions > MAX_EXTENSIONS {
            return Err(Reject::new(413, "the chunk extensions of the body are too long"));
        }
        Ok(())
    }

    fn after_size(&mut self) -> State {
        self.total += self.size;
        self.digits = 0;
        self.extension = 0;
        if self.size == 0 { State::Trailer(At::FieldStart) } else { State::Data }
    }

    /// Trailers are checked and dropped: they never become fields of the head (RFC 9110 6.5.1).
    fn trailer_byte(&mut self, at: At, byte: u8, limits: &Limits) -> Result<State, Reject> {
        self.trailers += 1;
        if self.trailers > MAX_TRAILERS {
            return Err(Reject::new(431, "the trailers are too long"));
        }
        let next = if byte == b'\n' { Err(Reject::bad("a trailer ends with a bare LF")) } else { at.step(byte) }?;
        match (at, next) {
            (At::FieldStart, At::Cr) => return Ok(State::LastLf),
            (_, At::Cr) => return Ok(State::TrailerLf),
            (At::FieldStart, At::Name) => {
                self.trailer_count += 1;
                if self.trailer_count > limits.max_fields {
                    return Err(Reject::TOO_MANY_FIELDS);
                }
                self.name.clear();
                self.name.push(byte);
            }
            (_, At::Name) => self.name.push(byte),
            (At::Name, At::Value) if FORBIDDEN_TRAILERS.iter().any(|name| self.name.eq_ignore_ascii_case(name)) => {
                return Err(Reject::bad("a trailer holds a field that may stand only in the head"));
            }
            _ => {}
        }
        Ok(State::Trailer(next))
    }
}
