//! Bytes to [`RequestHead`]: the request line and the fields, RFC 9112 sections 3 and 5.
//!
//! Goes line by line and can stop anywhere. Called again with more bytes it goes on where it was, so that a head that
//! comes byte by byte costs as much as one that comes whole. An incomplete line is checked as far as it goes ([`At`]):
//! a wrong byte is refused at once, without waiting for the end of the line. The verdict does not depend on how the
//! bytes are cut.

use memchr::memchr;

use super::framing::FramingFields;
use super::grammar::{begins_ipv6, is_host, is_ipv6, is_target_byte, is_tchar, is_value, members, trim};
use super::head::{Field, RequestHead, Span, Version};
use super::line::At;
use super::reject::Reject;
use crate::limits::Limits;

const HOST: Reject = Reject::bad("Host comes twice, or is not HOST or HOST:PORT");

/// Reads one head.
#[derive(Debug, Default)]
pub struct HeadParser {
    /// The head as far as it is known; complete once [`HeadParser::parse`] has returned true.
    pub head: RequestHead,
    /// Where the line that is being read begins.
    line: usize,
    /// How far the bytes were checked: there is no LF from `line` to here.
    checked: usize,
    at: At,
    stage: Stage,
    count: usize,
    framing: FramingFields,
    has_host: bool,
    close: bool,
    keep_alive: bool,
    unknown_expectation: bool,
    connect: bool,
    authority: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Before the request line; one empty line is ignored here (RFC 9112 2.2).
    #[default]
    Start,
    RequestLine,
    Fields,
}

impl HeadParser {
    /// Make ready for the next head, and keep the allocated memory.
    pub fn reset(&mut self) {
        let mut fields = std::mem::take(&mut self.head.fields);
        fields.clear();
        *self = Self { head: RequestHead { fields, ..RequestHead::default() }, ..Self::default() };
    }

    /// Length of the head in bytes, once it is complete.
    pub fn length(&self) -> usize {
        self.line
    }

    /// Whether a head has begun; the one empty line that may precede it does not count.
    pub fn has_begun(&self) -> bool {
        self.stage == Stage::Fields || !matches!(self.at, At::Start | At::SecondStart)
    }

    /// Go on in `bytes`, which begin as in the calls before. Returns whether the head is complete.
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, Reject> {
        loop {
            let rest = bytes.get(self.checked..).unwrap_or_default();
            let Some(offset) = memchr(b'\n', rest) else {
                self.bound(bytes, bytes.len(), limits)?;
                self.check(bytes, bytes.len())?;
                return Ok(false);
            };
            let end = self.checked + offset;
            self.bound(bytes, end + 1, limits)?;
            let Some((b'\r', line)) = bytes.get(self.line..end).and_then(<[u8]>::split_last) else {
                // RFC 9112 2.2 lets a recipient take it for CRLF. A proxy that does not would see other requests.
                self.check(bytes, end)?;
                return Err(Reject::bad("a line ends with a bare LF"));
            };
            let taken = self.take(line);
            self.line = end + 1;
            self.checked = self.line;
            self.at = if self.stage == Stage::Fields { At::FieldStart } else { At::SecondStart };
            if taken? {
                return Ok(true);
            }
        }
    }

    /// Hold the line that is being read, up to `end`, to its limits (RFC 9112 3, RFC 9110 5.4). The bytes before a
    /// limit are checked first, so that the fault does not depend on the pieces in which they come.
    fn bound(&mut self, bytes: &[u8], end: usize, limits: &Limits) -> Result<(), Reject> {
        let is_far =
            self.count < limits.max_fields && end <= limits.max_head && end - self.line <= limits.max_request_line;
        if is_far { Ok(()) } else { self.bound_near(bytes, end, limits) }
    }

    #[cold]
    fn bound_near(&mut self, bytes: &[u8], end: usize, limits: &Limits) -> Result<(), Reject> {
        if self.stage == Stage::Fields && self.count >= limits.max_fields {
            let begins = bytes.get(self.line..end).and_then(<[u8]>::first);
            if begins.is_some_and(|&byte| byte != b'\r' && byte != b'\n') {
                return Err(Reject::TOO_MANY_FIELDS);
            }
        }
        let line = bytes.get(self.line..end).unwrap_or_default();
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        let content = content.strip_suffix(b"\r").unwrap_or(content);
        if self.stage != Stage::Fields && content.len() > limits.max_request_line {
            // A CR right after the limit may end the line, so it is checked too (RFC 9112 2.2: a bare CR is a fault).
            let is_cr = content.get(limits.max_request_line) == Some(&b'\r');
            self.check(bytes, self.line + limits.max_request_line + usize::from(is_cr))?;
            return Err(if self.at == At::Method { Reject::METHOD_TOO_LONG } else { Reject::LINE_TOO_LONG });
        }
        if end > limits.max_head {
            self.check(bytes, limits.max_head)?;
            return Err(Reject::HEAD_TOO_LARGE);
        }
        Ok(())
    }

    /// Check the bytes up to `end` of a line that has no LF yet.
    fn check(&mut self, bytes: &[u8], end: usize) -> Result<(), Reject> {
        for (at, &byte) in bytes.iter().enumerate().take(end).skip(self.checked) {
            let line = bytes.get(self.line..at).unwrap_or_default();
            self.at = match (self.at, byte) {
                (At::Method, b' ') => At::target_of(line),
                (At::Name, b':') => self.value_of(line)?,
                (before, _) if before.is_in_literal() && !is_of_ipv6(line, byte) => return Err(HOST),
                (before, _) => before.step(byte)?,
            };
            if self.at == At::Cr && self.stage != Stage::Fields && !line.is_empty() {
                self.request_line(line)?;
            }
        }
        self.checked = self.checked.max(end);
        Ok(())
    }

    /// Where a line is after the name of a field. Refuses a field that must not be here.
    fn value_of(&self, name: &[u8]) -> Result<At, Reject> {
        if name.eq_ignore_ascii_case(b"host") {
            return if self.has_host { Err(HOST) } else { Ok(At::HOST) };
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            return self.framing.begin_length().map(|()| At::LENGTH);
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return self.framing.begin_coding(self.head.version == Version::Http10).map(|()| At::CODING);
        }
        Ok(At::Value)
    }

    /// Take in one line, given without its CRLF. Returns whether it was the blank line that ends the head.
    fn take(&mut self, line: &[u8]) -> Result<bool, Reject> {
        match self.stage {
            Stage::Start if line.is_empty() => self.stage = Stage::RequestLine,
            Stage::Start | Stage::RequestLine => {
                self.request_line(line)?;
                self.stage = Stage::Fields;
            }
            Stage::Fields if line.is_empty() => {
                self.finish()?;
                return Ok(true);
            }
            Stage::Fields => self.field(line)?,
        }
        Ok(false)
    }

    /// `method SP request-target SP HTTP-version`, RFC 9112 3.
    fn request_line(&mut self, line: &[u8]) -> Result<(), Reject> {
        const MALFORMED: Reject = Reject::bad("the request line is not METHOD SP TARGET SP HTTP/1.1");
        let (method, rest) = line.split_at(run(line, is_tchar));
        let (b" ", rest) = rest.split_at(rest.len().min(1)) else { return Err(MALFORMED) };
        let (target, rest) = rest.split_at(run(rest, is_target_byte));
        let (b" ", version) = rest.split_at(rest.len().min(1)) else {
            return Err(Reject::bad("the request target holds a byte that belongs in no target"));
        };
        if method.is_empty() || target.is_empty() {
            return Err(MALFORMED);
        }
        // RFC 9112 2.3: case-sensitive, one digit each. A minor version that is not known is served as the highest that
        // is (RFC 9110 2.5), a major one is not (RFC 9110 15.6.6).
        let is_later = matches!(version, [b'H', b'T', b'T', b'P', b'/', b'2'..=b'9', b'.', b'0'..=b'9', ..]);
        self.head.version = match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Version::Http11,
            // The preface of HTTP/2 asks for `*` (RFC 9113 3.4).
            _ if is_later && target == b"*" => return Err(Reject::VERSION),
            _ if is_later => Version::Http11,
            _ => return Err(MALFORMED),
        };
        self.head.method = Span::new(self.line, method.len());
        self.head.target = Span::new(self.line + method.len() + 1, target.len());
        self.connect = method == b"CONNECT";
        // A fault in the target comes first: it is one in every version.
        self.target(method, target, self.line + method.len() + 1)?;
        if is_later { Err(Reject::VERSION) } else { Ok(()) }
    }

    /// The four forms of a target, RFC 9112 3.2; `start` is where it stands.
    fn target(&mut self, method: &[u8], target: &[u8], start: usize) -> Result<(), Reject> {
        if self.connect {
            // authority-form (3.2.3): the answer is 501 at the end of the head, whatever the target is.
            return Ok(());
        }
        match target {
            // origin-form (3.2.1).
            [b'/', ..] => self.path_and_query(target, start),
            // asterisk-form (3.2.4).
            b"*" if method == b"OPTIONS" => self.head.asterisk = true,
            // absolute-form (3.2.2), with the schemes of RFC 9110 4.2, and without userinfo, which it deprecates.
            _ => {
                let scheme = [b"http://".as_slice(), b"https://"]
                    .into_iter()
                    .find(|scheme| target.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme)))
                    .ok_or(Reject::bad("the request target has none of the four forms"))?;
                let rest = target.get(scheme.len()..).unwrap_or_default();
                let end = rest.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                if !is_host(authority) {
                    return Err(Reject::bad("the authority of the request target is not HOST or HOST:PORT"));
                }
                self.authority = true;
                self.head.host = Some(Span::new(start + scheme.len(), end));
                self.path_and_query(path, start + scheme.len() + end);
            }
        }
        Ok(())
    }

    fn path_and_query(&mut self, target: &[u8], start: usize) {
        let path = memchr(b'?', target).unwrap_or(target.len());
        self.head.path = Span::new(start, path);
        self.head.query = Span::new(start + path + 1, target.len().saturating_sub(path + 1));
    }

    /// `field-name ":" OWS field-value OWS`, RFC 9112 5. No obs-fold (5.2), no space before the colon (5.1).
    fn field(&mut self, line: &[u8]) -> Result<(), Reject> {
        let (name, value) = line.split_at(run(line, is_tchar));
        let (false, [b':', value @ ..]) = (name.is_empty(), value) else {
            return Err(Reject::bad("a field line does not begin with a token and a colon"));
        };
        // RFC 9110 5.5: NUL, CR and LF are refused, and so are all other controls.
        if !is_value(value) {
            return Err(Reject::bad("a field value holds a control character"));
        }
        let leading = value.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        let start = self.line + name.len() + 1 + leading;
        let value = trim(value);
        let span = Span::new(start, value.len());
        self.count += 1;
        self.note(name, value, span)?;
        if name.contains(&b'_') || name.eq_ignore_ascii_case(b"proxy") {
            self.head.dropped += 1;
        } else {
            self.head.fields.push(Field { name: Span::new(self.line, name.len()), value: span });
        }
        Ok(())
    }

    /// Note the fields that steer the exchange. A fault that no later field can mend is refused here, not at the end.
    fn note(&mut self, name: &[u8], value: &[u8], span: Span) -> Result<(), Reject> {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => {
                // RFC 9112 3.2: at most one, and a valid one, in every version.
                if self.has_host || !is_host(value) {
                    return Err(HOST);
                }
                self.has_host = true;
                if !self.authority {
                    self.head.host = Some(span);
                }
            }
            // RFC 9110 10.1.1.
            6 if name.eq_ignore_ascii_case(b"expect") => {
                for expectation in members(value).filter(|member| !member.is_empty()) {
                    let known = expectation.eq_ignore_ascii_case(b"100-continue");
                    self.head.expects_continue |= known;
                    self.unknown_expectation |= !known;
                }
            }
            // RFC 9110 7.6.1.
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in members(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.framing.content_length(value)?,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.framing.transfer_encoding(value, self.head.version == Version::Http10)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Decide what depends on all fields.
    fn finish(&mut self) -> Result<(), Reject> {
        let is_http_10 = self.head.version == Version::Http10;
        // RFC 9112 3.2: HTTP/1.1 needs a Host.
        if !self.has_host && !is_http_10 {
            return Err(Reject::bad("there is no Host"));
        }
        self.head.framing = self.framing.decide()?;
        // RFC 9110 9.3.6: this is no proxy.
        if self.connect {
            return Err(Reject::CONNECT);
        }
        // RFC 9110 10.1.1: an expectation that cannot be met is refused; that of an HTTP/1.0 client is ignored.
        if self.unknown_expectation && !is_http_10 {
            return Err(Reject::UNKNOWN_EXPECTATION);
        }
        self.head.expects_continue &= !is_http_10;
        // RFC 9112 9.3.
        self.head.persistent = !self.close && (!is_http_10 || self.keep_alive);
        Ok(())
    }
}

/// How many bytes at the beginning of `bytes` belong to a class.
fn run(bytes: &[u8], class: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&byte| !class(byte)).unwrap_or(bytes.len())
}

/// Whether `line` from its last `[` on, with `byte`, is an IPv6 address (if `byte` is `]`) or may become one.
fn is_of_ipv6(line: &[u8], byte: u8) -> bool {
    let literal = line.rsplit(|&byte| byte == b'[').next().unwrap_or_default();
    if byte == b']' { is_ipv6(literal) } else { begins_ipv6(&[literal, &[byte]].concat()) }
}
