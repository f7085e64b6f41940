//! One answer on its way from the application into the outbox of the connection: its head, its framing and its body.
//!
//! The head is written into the outbox as soon as it is checked. It is taken back if the application replaces it
//! (`exc_info`) or fails, until the first byte of the body commits it (PEP 3333, "The start_response() Callable").
//! The connection lends its outbox for the time of one call. Knows neither the application nor the environ.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyAssertionError, PyConnectionAbortedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use super::sendfile_header::SendfileHeader;
use super::start_response::{shown, write_head};
use crate::http::own_fields::OwnFields;
use crate::http::response::{Asked, Framing, LAST_CHUNK, ResponseHead, chunk};
use crate::net::clock;
use crate::net::connections::outbox::{Borrowed, FileRange, Flushed, Outbox};
use crate::net::connections::transport::Transport;

/// Most bytes around the data of a chunk.
const CHUNK: usize = 20;

/// The message of `write()` for a client that is gone.
pub const GONE: &str = "the client is gone";
const AFTER_END: &str = "write() was called after the end of its request";

/// The state of an answer.
#[pyclass(module = "poorhttp._engine", immutable_type)]
#[derive(Default)]
pub struct Exchange {
    /// Lent by the connection for the time of a call.
    pub outbox: Outbox,
    /// `None` outside a call.
    pub transport: Option<Transport>,
    asked: Asked,
    head: Option<ResponseHead>,
    framing: Framing,
    /// The head is final.
    is_committed: bool,
    /// Bytes that Content-Length still promises.
    left: u64,
    /// The application has given all of the body.
    has_ended: bool,
    /// Bytes of the body so far.
    pub length: u64,
    /// The connection can go on after this answer.
    pub persistent: bool,
    /// The body was longer than its Content-Length.
    pub overrun: bool,
    /// Names of hop-by-hop headers, which were left out.
    pub dropped: Vec<String>,
    /// `wsgi.input`, if it is a temporary file.
    pub input_file: Option<Py<PyAny>>,
    /// The id that is answered as X-Request-ID; empty for none.
    pub id: String,
    /// The application gave an X-Request-ID of its own.
    has_id: bool,
    /// How the peer takes files, if it is a proxy that does.
    pub sendfile_header: Option<Arc<SendfileHeader>>,
    own: OwnFields,
    write_timeout: Duration,
    /// That of the thread that owns this exchange.
    pulse: Option<clock::Pulse>,
    /// How many requests it has served.
    turn: u64,
    /// The bound method `write`, made once.
    pub bound_write: Option<Py<PyAny>>,
}

impl Exchange {
    /// An exchange for the thread of this pulse.
    pub fn new(pulse: clock::Pulse, own: OwnFields, write_timeout: Duration) -> Self {
        Self { own, write_timeout, pulse: Some(pulse), ..Self::default() }
    }

    /// How long the client may take no byte.
    pub fn write_timeout(&self) -> Duration {
        self.write_timeout
    }

    /// Note a sign of life of the application.
    pub fn beat(&self) {
        self.pulse.map(clock::Pulse::beat);
    }

    /// Raise RuntimeError unless the request of this turn still goes on.
    pub fn check_lasts(&self, turn: u64) -> PyResult<()> {
        let lasts = self.turn == turn && self.transport.is_some();
        if lasts { Ok(()) } else { Err(PyRuntimeError::new_err(AFTER_END)) }
    }

    /// Take data from `write()`. Returns its turn and where it goes.
    pub fn take_written(&mut self, data: &[u8]) -> PyResult<(u64, Transport)> {
        let Some(transport) = self.transport.clone() else {
            return Err(PyRuntimeError::new_err(AFTER_END));
        };
        // Not after the end of the request: the pulse may be that of another request by now.
        self.beat();
        if self.outbox.is_broken() {
            return Err(PyConnectionAbortedError::new_err(GONE));
        }
        if !data.is_empty() {
            self.commit(None)?;
            self.block(data, &transport, None);
        }
        Ok((self.turn, transport))
    }

    /// Make ready for a request, whose answer goes into `outbox`.
    pub fn renew(&mut self, outbox: Outbox, transport: Transport, asked: Asked) {
        self.turn += 1;
        self.outbox = outbox;
        self.transport = Some(transport);
        self.asked = asked;
        self.persistent = asked.persistent;
        self.head = None;
        self.framing = Framing::None;
        self.is_committed = false;
        self.left = 0;
        self.has_ended = false;
        self.length = 0;
        self.overrun = false;
        self.dropped.clear();
        self.input_file = None;
        self.id.clear();
        self.has_id = false;
        self.sendfile_header = None;
    }

    /// Begin the answer. PEP 3333: a second head needs `exc_info`.
    pub fn begin(&mut self, status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>, has_exc_info: bool) -> PyResult<()> {
        if self.transport.is_none() {
            return Err(PyRuntimeError::new_err("start_response() was called after the end of its request"));
        }
        if has_exc_info {
            self.roll_back();
        } else if self.head.is_some() {
            return Err(PyAssertionError::new_err("start_response() was called again without exc_info"));
        }
        let mark = self.outbox.bytes.len();
        let written = self.write_head(status, headers);
        if written.is_err() {
            self.outbox.bytes.truncate(mark);
            self.roll_back();
        }
        self.head = Some(written?);
        Ok(())
    }

    fn write_head(&mut self, status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<ResponseHead> {
        let Self { outbox, id, has_id, dropped, .. } = self;
        write_head(&mut outbox.bytes, status, headers, |name, is_written| {
            *has_id |= !id.is_empty() && name.eq_ignore_ascii_case(b"x-request-id");
            if !is_written {
                dropped.push(shown(name));
            }
        })
    }

    /// Whether it is too late for another head: `exc_info` must be raised.
    pub fn must_raise(&self) -> bool {
        self.is_committed && self.transport.is_some()
    }

    /// Whether the head is final.
    pub fn is_committed(&self) -> bool {
        self.is_committed
    }

    /// Whether the answer has no body, so that the application need not be asked for more.
    pub fn is_bodiless(&self) -> bool {
        self.is_committed && self.framing == Framing::None
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.head.as_ref().map_or(500, |head| head.status)
    }

    /// Take back a head that is not final.
    pub fn roll_back(&mut self) {
        self.has_id = false;
        self.dropped.clear();
        if let Some(head) = self.head.take() {
            self.outbox.bytes.truncate(head.mark);
        }
    }

    /// End the head: it is final. `body`: the length of the whole body, if it is known.
    pub fn commit(&mut self, body: Option<u64>) -> PyResult<()> {
        let Some(head) = &mut self.head else {
            return Err(PyTypeError::new_err("the application gave a body before it called start_response()"));
        };
        if self.is_committed {
            return Ok(());
        }
        if !self.has_id {
            head.id(&mut self.outbox.bytes, &self.id);
        }
        let own = self.own.at(clock::unix_second());
        let (framing, persistent) = head.finish(&mut self.outbox.bytes, self.asked, body, own);
        self.framing = framing;
        self.persistent = persistent;
        self.is_committed = true;
        if let Framing::Length(length) = framing {
            self.left = length;
        }
        if let (Framing::Close, Some(transport)) = (framing, &self.transport) {
            transport.reset_unless_finished();
        }
        Ok(())
    }

    /// Answer with a page of the server.
    pub fn answer(&mut self, status: &[u8], body: &[u8]) {
        let out = &mut self.outbox.bytes;
        let Ok(mut head) = ResponseHead::begin(out, status) else { return };
        // A constant field is not refused, and with a head `commit` does not fail.
        let _ = head.field(out, b"Content-Type", b"text/html; charset=utf-8");
        self.head = Some(head);
        let _ = self.commit(Some(body.len() as u64));
        if let Some(transport) = self.transport.clone() {
            self.block(body, &transport, None);
        }
    }

    /// Answer 504 with this page in the place of a call that does not return. Returns false if the call has begun its
    /// answer, which is broken off. From now on the call cannot write.
    pub fn give_up(&mut self, page: &[u8]) -> bool {
        if self.transport.is_none() {
            return false;
        }
        let can_answer = !self.is_committed && !self.outbox.is_broken();
        if can_answer {
            self.roll_back();
            self.asked.persistent = false;
            self.answer(b"504 Gateway Timeout", page);
        }
        self.break_off();
        can_answer
    }

    /// Whether the body is as long as the head announces (RFC 9112 6.3).
    fn is_whole(&self) -> bool {
        match self.framing {
            Framing::None => true,
            Framing::Length(_) => self.left == 0,
            Framing::Chunked | Framing::Close => self.has_ended,
        }
    }

    /// End the answer here. The bytes that were given are sent. If the body is incomplete, a reset tells the client so (RFC 9112
    /// 8).
    pub fn end_early(&mut self) {
        self.persistent = false;
        if !self.is_whole() {
            self.outbox.mark_incomplete();
        }
    }

    /// End the answer and the connection at once: what the client does not take now is not sent.
    pub fn break_off(&mut self) {
        if let Some(transport) = self.transport.clone() {
            let is_sent = self.outbox.flush(&transport) == Flushed::Drained;
            if is_sent && self.is_whole() { transport.finish() } else { transport.reset() }
        }
        self.outbox.break_off();
    }

    /// Add a block of the body, framed, and no more than Content-Length allows. `owner`: keeps the data alive, if it
    /// need not be copied.
    pub fn block(&mut self, data: &[u8], transport: &Transport, owner: Option<&Bound<'_, PyBytes>>) {
        // An object of a subclass may run code of the application when it is let go, on whichever thread sent it.
        let owner = owner.filter(|owner| owner.is_exact_instance_of::<PyBytes>());
        let borrow = || owner.map(|owner| Box::new(PyBackedBytes::from(owner.clone())) as Borrowed);
        let mut data = data;
        match self.framing {
            Framing::None => return,
            Framing::Length(_) => {
                let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.len());
                self.overrun |= allowed < data.len();
                data = data.get(..allowed).unwrap_or_default();
                self.left -= data.len() as u64;
                self.outbox.push(data, transport, borrow);
            }
            Framing::Chunked => {
                self.outbox.make_room(data.len() + CHUNK);
                chunk(&mut self.outbox.bytes, data);
            }
            Framing::Close => self.outbox.push(data, transport, borrow),
        }
        self.length += data.len() as u64;
    }

    /// Let the proxy in front send the file, if it does that and `range` is the whole answer. Returns whether it will.
    /// One with a content coding is not for the proxy: nginx drops that field.
    pub fn delegate(&mut self, range: &FileRange) -> PyResult<bool> {
        let bytes = &self.outbox.bytes;
        let is_whole = self.sendfile_header.is_some()
            && self.head.as_ref().is_some_and(|head| {
                let has_length = head.length.is_none_or(|length| length == range.left);
                head.status == 200 && has_length && !head.has(bytes, b"content-encoding")
            });
        let Some(line) = self.sendfile_header.as_ref().filter(|_| is_whole).and_then(|header| header.line(range))
        else {
            return Ok(false);
        };
        self.outbox.bytes.extend_from_slice(&line);
        if let Some(head) = &mut self.head {
            // The proxy adds the length of what it sends.
            head.length = None;
        }
        self.commit(Some(0))?;
        Ok(true)
    }

    /// Send `range` as the body.
    pub fn file(&mut self, mut range: FileRange) {
        if let Framing::Length(_) = self.framing {
            range.left = range.left.min(self.left);
            self.left -= range.left;
            self.length += range.left;
            self.outbox.file = Some(range).filter(|range| range.left > 0);
        }
    }

    /// Note that the body is complete. Returns how many bytes it lacks of its Content-Length.
    pub fn end(&mut self) -> u64 {
        if self.framing == Framing::Chunked {
            self.outbox.bytes.extend_from_slice(LAST_CHUNK);
        }
        self.has_ended = true;
        if self.left > 0 {
            self.end_early();
        }
        self.left
    }

    /// Drop what was not sent of a file: it does not count. Returns its number of bytes if the file became shorter,
    /// else 0.
    pub fn leave_file(&mut self) -> u64 {
        let Some(range) = self.outbox.file.take() else { return 0 };
        self.length -= range.left;
        self.left += range.left;
        self.end_early();
        if range.is_short { range.left } else { 0 }
    }

    /// Give the outbox back. From now on the application cannot write.
    pub fn release(&mut self) -> Outbox {
        self.transport = None;
        std::mem::take(&mut self.outbox)
    }
}
