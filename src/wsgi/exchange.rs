//! One answer on its way from the application: `start_response`, `write`, and the framing of the body.
//!
//! The head is written into the outbox as soon as it is checked, and taken back if the application changes its mind
//! (`exc_info`) or fails; it is committed with the first byte of the body (PEP 3333, "The start_response() Callable").
//! The outbox is lent by the connection for the time of one call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyAssertionError, PyConnectionAbortedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple, PyTupleMethods};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::handover::Handover;
use super::text;
use crate::http::own_fields::OwnFields;
use crate::http::response::{Asked, Framing, LAST_CHUNK, ResponseHead, chunk};
use crate::net::clock;
use crate::net::connections::outbox::{Flushed, HIGH_WATER, Held, Outbox};
use crate::net::connections::transport::Transport;

/// Most bytes around the data of a chunk.
const CHUNK: usize = 20;
/// What `write()` may leave unsent in memory.
const WRITE_AHEAD: usize = 4 * HIGH_WATER;

/// What an application gets as `start_response`, and the state of its answer.
#[pyclass(module = "poorhttp._engine", immutable_type)]
#[derive(Default)]
pub struct Exchange {
    /// The connection's, for the time of a call.
    pub outbox: Outbox,
    /// None outside a call.
    pub transport: Option<Transport>,
    asked: Asked,
    head: Option<ResponseHead>,
    framing: Framing,
    /// The head is on its way.
    committed: bool,
    /// Bytes that Content-Length still promises.
    left: u64,
    /// The application has given all of the body.
    ended: bool,
    /// Bytes of the body so far.
    pub length: u64,
    /// The connection can go on after this answer.
    pub persistent: bool,
    /// The body came longer than announced.
    pub overrun: bool,
    /// Header names that were left out because they are the server's business.
    pub dropped: Vec<String>,
    /// `wsgi.input` where it is a temporary file.
    pub input_file: Option<Py<PyAny>>,
    /// The id that is answered as X-Request-ID; empty for none.
    pub id: String,
    has_id: bool,
    /// How the peer takes files, if it is a front server that does.
    pub handover: Option<Arc<Handover>>,
    own: OwnFields,
    write_timeout: Duration,
    /// That of the thread whose it is.
    pulse: Option<clock::Pulse>,
    /// Counts the requests that it served.
    turn: u64,
    /// The bound method `write`, made once.
    write: Option<Py<PyAny>>,
}

/// An exchange and its bound `start_response`. Making the three objects anew costs a tenth of a small request, so a
/// thread uses them again, unless the application kept a reference to one of them.
pub struct Kit {
    /// The exchange.
    pub exchange: Py<Exchange>,
    /// What the application gets.
    pub start_response: Py<PyAny>,
}

impl Kit {
    /// A new exchange, for the thread of this pulse.
    pub fn new(py: Python<'_>, pulse: clock::Pulse, own: OwnFields, write_timeout: Duration) -> PyResult<Self> {
        let exchange = Bound::new(py, Exchange { own, write_timeout, pulse: Some(pulse), ..Exchange::default() })?;
        let start_response = exchange.getattr(intern!(py, "start_response"))?.unbind();
        Ok(Self { exchange: exchange.unbind(), start_response })
    }

    /// Let go of it: it refers to the exchange, which refers to it.
    pub fn dissolve(self, py: Python<'_>) {
        let write = self.exchange.bind(py).try_borrow_mut().map(|mut exchange| exchange.write.take());
        drop(write);
    }

    /// The same kit if nobody refers to its objects but one reference of the caller's to the exchange: then it is as
    /// good as new.
    pub fn reusable(self, py: Python<'_>) -> Option<Self> {
        let mut exchange = self.exchange.bind(py).try_borrow_mut().ok()?;
        let (write, of_write) = match &exchange.write {
            Some(write) => (references(write), 1),
            None => (1, 0),
        };
        // This kit, its start_response, the borrow above, the caller, and perhaps `write` refer to the exchange.
        let is_alone =
            references(&self.start_response) == 1 && write == 1 && references(&self.exchange) == 4 + of_write;
        if !is_alone {
            // It refers to the exchange, which refers to it.
            exchange.write = None;
        }
        drop(exchange);
        is_alone.then_some(self)
    }
}

/// How many references there are to an object.
pub fn references<T>(object: &Py<T>) -> isize {
    // SAFETY: the object is alive, for this is a reference to it, and the caller is attached to the interpreter.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) }
}

#[pymethods]
impl Exchange {
    /// `start_response(status, headers, exc_info=None)`.
    #[pyo3(signature = (status, headers, exc_info = None, /))]
    fn start_response<'py>(
        slf: &Bound<'py, Self>,
        status: &Bound<'py, PyAny>,
        headers: &Bound<'py, PyAny>,
        exc_info: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let exc_info = exc_info.filter(|exc_info| !exc_info.is_none());
        if let Some(exc_info) = exc_info
            && slf.try_borrow()?.must_raise()
        {
            // Not borrowed meanwhile: this may be code of the application's, and another thread may end the request.
            return Err(PyErr::from_value(exc_info.get_item(1)?));
        }
        let mut exchange = slf.try_borrow_mut()?;
        if exchange.transport.is_none() {
            return Err(PyRuntimeError::new_err("start_response() was called after the end of its request"));
        }
        exchange.check_turn(exc_info.is_some())?;
        exchange.begin(status, headers)?;
        let write = match exchange.write.take() {
            Some(write) => write,
            None => slf.getattr(intern!(slf.py(), "write"))?.unbind(),
        };
        let given = write.bind(slf.py()).clone();
        exchange.write = Some(write);
        Ok(given)
    }

    /// `write(data)`: the imperative way to give a body, kept for old applications. It returns before the client has
    /// taken the data: a slow one has no thread for himself, what is too much for the memory waits in a file. Only where
    /// that has no room does `write()` wait.
    #[pyo3(signature = (data, /))]
    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        let py = slf.py();
        let (turn, transport) = slf.try_borrow_mut()?.take_written(data.as_bytes())?;
        // How much no file took, and when: it would be written in vain again for each bit that the client takes.
        let mut refused: Option<(usize, Instant)> = None;
        // The exchange is not borrowed while this waits: another thread may end the request meanwhile.
        loop {
            let (mut outbox, timeout) = {
                let mut exchange = slf.try_borrow_mut()?;
                exchange.check_lasts(turn)?;
                exchange.beat();
                if !exchange.committed {
                    // Nothing was written yet: another head may still replace this one (PEP 3333).
                    return Ok(());
                }
                if exchange.outbox.flush(&transport) == Flushed::Broken {
                    return Err(PyConnectionAbortedError::new_err(GONE));
                }
                if exchange.outbox.unsent() <= WRITE_AHEAD {
                    return Ok(());
                }
                // Whoever ends the request meanwhile, or writes too, finds a client who is gone.
                let outbox = std::mem::replace(&mut exchange.outbox, Outbox::broken());
                (outbox, exchange.write_timeout)
            };
            let unsent = outbox.unsent();
            let is_worth_it = refused.is_none_or(|(most, when)| unsent <= most / 2 || when.elapsed() >= timeout);
            let is_laid_aside = is_worth_it && py.detach(|| outbox.lay_aside().is_ok());
            {
                let mut exchange = slf.try_borrow_mut()?;
                exchange.check_lasts(turn)?;
                exchange.outbox = outbox;
            }
            if is_laid_aside {
                return Ok(());
            }
            if is_worth_it {
                refused = Some((unsent, Instant::now()));
            }
            let untaken = transport.unacknowledged();
            let has_room = wait_for_room(slf, turn, &transport, timeout)?;
            // There is room only once a third of the buffer is free: a slow reader is not a dead one.
            if !has_room && transport.unacknowledged() >= untaken {
                slf.try_borrow_mut()?.outbox.break_off();
            }
        }
    }
}

const AFTER_END: &str = "write() was called after the end of its request";
const GONE: &str = "the client is gone";

/// How often a thread that waits for its client shows that it is not the application which takes so long.
const BEAT: Duration = Duration::from_millis(100);

/// Whether the socket has room: not so once the time is over. Interrupted by signals, and by the end of the request.
fn wait_for_room(
    exchange: &Bound<'_, Exchange>,
    turn: u64,
    transport: &Transport,
    timeout: Duration,
) -> PyResult<bool> {
    let py = exchange.py();
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: 0, tv_nsec: left.min(BEAT).subsec_nanos().into() };
        match py.detach(|| poll(&mut [PollFd::new(transport, PollFlags::OUT)], Some(&wait))) {
            Ok(0) if left <= BEAT => return Ok(false),
            Ok(0) => {
                let exchange = exchange.try_borrow()?;
                // The thread whose pulse it is may have gone on: nobody would stop it.
                exchange.check_lasts(turn)?;
                exchange.beat();
            }
            Ok(_) => return Ok(true),
            Err(_) => return py.check_signals().map(|()| true),
        }
    }
}

impl Exchange {
    /// A sign of life of the application.
    fn beat(&self) {
        self.pulse.iter().copied().for_each(clock::Pulse::beat);
    }

    /// Whether the request of this turn still goes on.
    fn check_lasts(&self, turn: u64) -> PyResult<()> {
        let lasts = self.turn == turn && self.transport.is_some();
        if lasts { Ok(()) } else { Err(PyRuntimeError::new_err(AFTER_END)) }
    }

    /// Take data from `write()`. Returns which turn it belongs to, and where it goes.
    fn take_written(&mut self, data: &[u8]) -> PyResult<(u64, Transport)> {
        let Some(transport) = self.transport.clone() else {
            return Err(PyRuntimeError::new_err(AFTER_END));
        };
        // Only while the request lasts: nobody would stop it afterwards.
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

    /// Begin with a request that is answered into `outbox`.
    pub fn renew(&mut self, outbox: Outbox, transport: Transport, asked: Asked) {
        self.turn += 1;
        self.outbox = outbox;
        self.transport = Some(transport);
        self.asked = asked;
        self.persistent = asked.persistent;
        self.head = None;
        self.framing = Framing::None;
        self.committed = false;
        self.left = 0;
        self.ended = false;
        self.length = 0;
        self.overrun = false;
        self.dropped.clear();
        self.input_file = None;
        self.id.clear();
        self.has_id = false;
        self.handover = None;
    }

    /// PEP 3333: a second call needs exc_info, which is raised again after the first byte.
    fn check_turn(&mut self, has_exc_info: bool) -> PyResult<()> {
        if has_exc_info {
            self.roll_back();
        } else if self.head.is_some() {
            return Err(PyAssertionError::new_err("start_response() was called again without exc_info"));
        }
        Ok(())
    }

    fn begin(&mut self, status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
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
        write_head(&mut outbox.bytes, status, headers, |name, is_taken| {
            *has_id |= !id.is_empty() && name.eq_ignore_ascii_case(b"x-request-id");
            if !is_taken {
                dropped.push(shown(name));
            }
        })
    }

    /// Whether it is too late for another head.
    fn must_raise(&self) -> bool {
        self.committed && self.transport.is_some()
    }

    /// Whether the head is on its way.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// Whether no body may be sent, so that nothing more needs to be asked of the application.
    pub fn is_bodiless(&self) -> bool {
        self.committed && self.framing == Framing::None
    }

    /// The status of the answer.
    pub fn status(&self) -> u16 {
        self.head.as_ref().map_or(500, |head| head.status)
    }

    /// Take back a head that is not on its way yet.
    pub fn roll_back(&mut self) {
        self.has_id = false;
        self.dropped.clear();
        if let Some(head) = self.head.take() {
            self.outbox.bytes.truncate(head.mark);
        }
    }

    /// End the head: from now on it stands. `body` is the length of the whole body where it is known.
    pub fn commit(&mut self, body: Option<u64>) -> PyResult<()> {
        let Some(head) = &mut self.head else {
            return Err(PyTypeError::new_err("the application gave a body before it called start_response()"));
        };
        if self.committed {
            return Ok(());
        }
        if !self.has_id {
            head.id(&mut self.outbox.bytes, &self.id);
        }
        let own = self.own.at(clock::unix_second());
        let (framing, persistent) = head.finish(&mut self.outbox.bytes, self.asked, body, own);
        self.framing = framing;
        self.persistent = persistent;
        self.committed = true;
        if let Framing::Length(length) = framing {
            self.left = length;
        }
        if let (Framing::Close, Some(transport)) = (framing, &self.transport) {
            transport.hold_end();
        }
        Ok(())
    }

    /// Write a head and a whole body that the server made itself.
    pub fn answer(&mut self, status: &[u8], body: &[u8]) {
        let out = &mut self.outbox.bytes;
        let Ok(mut head) = ResponseHead::begin(out, status) else { return };
        // A constant field cannot be refused.
        let _ = head.field(out, b"Content-Type", b"text/html; charset=utf-8");
        self.head = Some(head);
        // It has a head.
        let _ = self.commit(Some(body.len() as u64));
        if let Some(transport) = self.transport.clone() {
            self.block(body, &transport, None);
        }
    }

    /// Answer 504 with this page in the place of a call that does not return, or break off what it began; from now on
    /// it says nothing more. Returns whether it could be answered.
    pub fn give_up(&mut self, page: &[u8]) -> bool {
        if self.transport.is_none() {
            return false;
        }
        let can_answer = !self.committed && !self.outbox.is_broken();
        if can_answer {
            self.roll_back();
            self.asked.persistent = false;
            self.answer(b"504 Gateway Timeout", page);
        }
        self.break_off();
        can_answer
    }

    /// Whether all of the body was given that the head announces (RFC 9112 6.3).
    fn is_whole(&self) -> bool {
        match self.framing {
            Framing::None => true,
            Framing::Length(_) => self.left == 0,
            Framing::Chunked | Framing::Close => self.ended,
        }
    }

    /// Nothing more is given. What was is sent; unless that is the whole answer, a reset tells that it is not (RFC 9112 8).
    pub fn cut_short(&mut self) {
        self.persistent = false;
        if !self.is_whole() {
            self.outbox.cut_short();
        }
    }

    /// The same at once: what does not go now is not sent.
    pub fn break_off(&mut self) {
        if let Some(transport) = self.transport.clone() {
            let is_sent = self.outbox.flush(&transport) == Flushed::Drained;
            if is_sent && self.is_whole() { transport.finish() } else { transport.reset() }
        }
        self.outbox.break_off();
    }

    /// Add a block of the body, framed; never more than Content-Length promised. `owner` holds it where it is not copied.
    pub fn block(&mut self, data: &[u8], transport: &Transport, owner: Option<&Bound<'_, PyBytes>>) {
        // One of a subclass may do anything when it is let go, which is wherever it was sent.
        let owner = owner.filter(|owner| owner.is_exact_instance_of::<PyBytes>());
        let hold = || owner.map(|owner| Box::new(PyBackedBytes::from(owner.clone())) as Held);
        let mut data = data;
        match self.framing {
            Framing::None => return,
            Framing::Length(_) => {
                let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.len());
                self.overrun |= allowed < data.len();
                data = data.get(..allowed).unwrap_or_default();
                self.left -= data.len() as u64;
                self.outbox.push(data, transport, hold);
            }
            Framing::Chunked => {
                self.outbox.make_room(data.len() + CHUNK);
                chunk(&mut self.outbox.bytes, data);
            }
            Framing::Close => self.outbox.push(data, transport, hold),
        }
        self.length += data.len() as u64;
    }

    /// Leave `range` to the front server, if it takes files and this is the whole answer. Returns whether it does.
    pub fn hand_over(&mut self, range: &crate::net::connections::outbox::FileRange) -> PyResult<bool> {
        let is_whole = self
            .head
            .as_ref()
            .is_some_and(|head| head.status == 200 && head.length.is_none_or(|length| length == range.left));
        let Some(line) = self.handover.as_ref().filter(|_| is_whole).and_then(|handover| handover.line(range)) else {
            return Ok(false);
        };
        self.outbox.bytes.extend_from_slice(&line);
        if let Some(head) = &mut self.head {
            // The front server tells the length of what it sends.
            head.length = None;
        }
        self.commit(Some(0))?;
        Ok(true)
    }

    /// Send `range` as the body.
    pub fn file(&mut self, mut range: crate::net::connections::outbox::FileRange) {
        if let Framing::Length(_) = self.framing {
            range.left = range.left.min(self.left);
            self.left -= range.left;
            self.length += range.left;
            self.outbox.file = Some(range).filter(|range| range.left > 0);
        }
    }

    /// The body is complete. Returns how many bytes it lacks.
    pub fn end(&mut self) -> u64 {
        if self.framing == Framing::Chunked {
            self.outbox.bytes.extend_from_slice(LAST_CHUNK);
        }
        self.ended = true;
        if self.left > 0 {
            self.cut_short();
        }
        self.left
    }

    /// What is left of a file will not be sent: it does not count. Returns how much that is where the file is too short.
    pub fn leave_file(&mut self) -> u64 {
        let Some(range) = self.outbox.file.take() else { return 0 };
        self.length -= range.left;
        self.left += range.left;
        self.cut_short();
        if range.is_short { range.left } else { 0 }
    }

    /// Give the outbox back; from now on the application cannot write.
    pub fn release(&mut self) -> Outbox {
        self.transport = None;
        std::mem::take(&mut self.outbox)
    }
}

/// Check what an application gives to `start_response`, and write it; `each`: told the name of each field, and whether it
/// was taken.
fn write_head(
    out: &mut Vec<u8>,
    status: &Bound<'_, PyAny>,
    headers: &Bound<'_, PyAny>,
    mut each: impl FnMut(&[u8], bool),
) -> PyResult<ResponseHead> {
    let status = latin1("the status", status)?;
    let mut head = ResponseHead::begin(out, &status)
        .map_err(|fault| PyValueError::new_err(format!("{fault}: {:?}", shown(&status))))?;
    let headers = headers
        .cast::<PyList>()
        .map_err(|_| PyTypeError::new_err(format!("the headers are a list of tuples, not {}", type_name(headers))))?;
    for header in headers.iter() {
        let Some([name, value]) = header.cast::<PyTuple>().ok().map(PyTupleMethods::as_slice) else {
            let kind = type_name(&header);
            return Err(PyTypeError::new_err(format!("a header is a tuple (name, value), not {kind}")));
        };
        let (name, value) = (latin1("a header name", name)?, latin1("a header value", value)?);
        let is_taken = head
            .field(out, &name, &value)
            .map_err(|fault| PyValueError::new_err(format!("{fault}: {:?}: {:?}", shown(&name), shown(&value))))?;
        each(&name, is_taken);
    }
    Ok(head)
}

/// Check a status and headers as `start_response` does; see `_engine.pyi`.
#[pyfunction]
pub fn check_head(status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    write_head(&mut Vec::new(), status, headers, |_, _| ()).map(|head| head.promised())
}

/// The name of the type of `object`, for a message.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

#[inline]
fn latin1<'a>(what: &str, object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    let text = object
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err(format!("{what} is a str, not {}", type_name(object))))?;
    text::bytes(text).ok_or_else(|| {
        let text: String = text.to_string_lossy().chars().take(SHOWN).collect();
        PyValueError::new_err(format!("a character of {what} is not latin-1: {text:?}"))
    })
}

/// The most bytes of a text that a message repeats.
const SHOWN: usize = 200;

/// Text for a message, or how it begins. Not `repr()`, which could be the application's own and come back here.
fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(SHOWN).map(|&byte| char::from(byte)).collect()
}
