//! The state machine of the receiving side of one connection: bytes in, whole requests out.
//!
//! [`Inbound`] holds the bytes that came, tells when a request is whole (head and body), and keeps the bytes after it
//! for the next one. Reads no socket and knows no time. The steps do not depend on how the bytes are cut.

use super::body::Decoder;
use super::framing::BodyFraming;
use super::head::RequestHead;
use super::head_parser::HeadParser;
use super::reject::Reject;
use crate::limits::Limits;

/// Where the data of a request body goes.
pub trait BodySink: Default {
    /// Keep `data`, which follows the data of the calls before. `rest`: how many bytes follow, if that is known.
    fn write(&mut self, data: &[u8], rest: Option<u64>, limits: &Limits) -> Result<(), Reject>;
}

/// Plain memory.
impl BodySink for Vec<u8> {
    fn write(&mut self, data: &[u8], _: Option<u64>, _: &Limits) -> Result<(), Reject> {
        self.extend_from_slice(data);
        Ok(())
    }
}

/// What [`Inbound::advance`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// The client waits for 100 before it sends the body; then advance again.
    Continue,
    /// A request is whole: serve it, then call [`Inbound::next_request`].
    Whole,
}

/// The bytes that were received.
#[derive(Debug, Default)]
pub struct Inbound<B> {
    bytes: Vec<u8>,
    /// Where the request being read begins.
    start: usize,
    parser: HeadParser,
    decoder: Option<Decoder>,
    state: State,
    /// The body of the request, as far as it has come.
    pub body: B,
    /// Bytes of the body that have come so far, with their framing.
    pub body_received: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body,
    Whole,
}

impl<B: BodySink> Inbound<B> {
    /// Where received bytes are to be appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// The head of the request, complete once its body is being read.
    pub fn head(&self) -> &RequestHead {
        &self.parser.head
    }

    /// The bytes that the spans of [`Inbound::head`] point into.
    pub fn head_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// The head, its bytes, and the body, which the caller may take.
    pub fn request(&mut self) -> (&RequestHead, &[u8], &mut B) {
        (&self.parser.head, self.bytes.get(self.start..).unwrap_or_default(), &mut self.body)
    }

    /// Whether a head has begun, or a body is being read.
    pub fn has_begun(&self) -> bool {
        self.state != State::Head || self.parser.has_begun()
    }

    /// Whether the head is complete and in order.
    pub fn has_head(&self) -> bool {
        self.state != State::Head
    }

    /// Whether a body is being read.
    pub fn in_body(&self) -> bool {
        self.state == State::Body
    }

    /// Bytes that a client whose request is refused has announced and not sent yet: the rest of its body, or `u64::MAX`
    /// if that is chunked. 0 if there is no body, or if the client waits for 100 before it sends one.
    pub fn announced(&self) -> u64 {
        let behind = self.head_bytes().len().saturating_sub(self.parser.length()) as u64;
        match (&self.decoder, self.parser.head.framing) {
            (Some(Decoder::Length(left)), _) => *left,
            (Some(Decoder::Chunked(_)), _) => u64::MAX,
            (None, _) if self.state != State::Head || self.parser.head.expects_continue && behind == 0 => 0,
            (None, BodyFraming::Length(length)) => length.saturating_sub(behind),
            (None, BodyFraming::Chunked) => u64::MAX,
            (None, BodyFraming::None) => 0,
        }
    }

    /// Whether nothing came after the request, which is whole.
    pub fn is_last(&self) -> bool {
        self.bytes.len() == self.start + self.parser.length()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.start
    }

    /// Read as far as the bytes go, but not past the end of a request.
    pub fn advance(&mut self, limits: &Limits) -> Result<Step, Reject> {
        if self.state == State::Head {
            let bytes = self.bytes.get(self.start..).unwrap_or_default();
            if !self.parser.parse(bytes, limits)? {
                return Ok(Step::More);
            }
            self.decoder = Decoder::new(self.parser.head.framing, limits)?;
            self.state = if self.decoder.is_some() { State::Body } else { State::Whole };
            let body_is_awaited = bytes.len() == self.parser.length();
            if self.state == State::Body && self.parser.head.expects_continue && body_is_awaited {
                return Ok(Step::Continue);
            }
        }
        self.read_body(limits)?;
        Ok(if self.state == State::Whole { Step::Whole } else { Step::More })
    }

    fn read_body(&mut self, limits: &Limits) -> Result<(), Reject> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let body_start = self.start + self.parser.length();
        let mut at = body_start;
        // The data of all chunks is moved together first, for one write.
        let mut data_end = body_start;
        while at < self.bytes.len() {
            let step = decoder.decode(self.bytes.get(at..).unwrap_or_default(), limits)?;
            let (length, done) = (step.data.len(), step.done);
            at += step.consumed;
            // The data of a step is at the end of what it consumed.
            if length > 0 && at - length > data_end {
                self.bytes.copy_within(at - length..at, data_end);
            }
            data_end += length;
            if done {
                self.state = State::Whole;
                self.decoder = None;
                break;
            }
        }
        self.body_received += (at - body_start) as u64;
        if data_end > body_start {
            let rest = self.decoder.as_ref().map_or(Some(0), Decoder::rest);
            self.body.write(self.bytes.get(body_start..data_end).unwrap_or_default(), rest, limits)?;
        }
        // The body is in its sink: keep the head and what follows the body.
        self.bytes.drain(body_start..at);
        Ok(())
    }

    /// Drop the request that was served. The bytes after it become the next one.
    pub fn next_request(&mut self) {
        self.start += self.parser.length();
        if self.start >= self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.parser.reset();
        self.decoder = None;
        self.state = State::Head;
        self.body = B::default();
        self.body_received = 0;
    }

    /// Forget everything, and keep the allocated memory.
    pub fn clear(&mut self) {
        self.next_request();
        self.bytes.clear();
        self.start = 0;
    }

    /// How many bytes of memory or file hold the request and the bytes after it. A body that was taken still counts.
    pub fn held(&self) -> usize {
        self.bytes.len().saturating_add(usize::try_from(self.body_received).unwrap_or(usize::MAX))
    }

    /// Make room for `room` more bytes. If the buffer is too small, `spare` takes its place, and the buffer becomes
    /// spare.
    pub fn make_room(&mut self, room: usize, spare: &mut Vec<u8>) {
        let bytes = self.buffer();
        if bytes.capacity() - bytes.len() < room {
            spare.clear();
            if spare.capacity() < bytes.len() + room {
                // To reserve more would copy what is of no use.
                *spare = Vec::new();
                spare.reserve_exact(bytes.len() + room);
            }
            spare.extend_from_slice(bytes);
            std::mem::swap(bytes, spare);
        }
    }

    /// Move the bytes to a buffer of just their size, since the connection is going to wait. The old buffer becomes
    /// spare.
    pub fn pack(&mut self, spare: &mut Vec<u8>) {
        if self.buffer().capacity() > self.bytes.len() {
            let packed = self.bytes.clone();
            *spare = std::mem::replace(&mut self.bytes, packed);
        }
    }
}
