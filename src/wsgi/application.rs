//! Calling the application: environ in, an iterable out, `close()` always, and what becomes of its exceptions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyConnectionAbortedError, PyException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

use super::environ::Environs;
use super::exchange::{Exchange, OwnFields};
use super::file_wrapper::FileWrapper;
use crate::net::clock;
use crate::net::handler::{Done, Handler, Outcome, Request, Resumed};
use crate::net::outbox::{Flushed, Outbox};
use crate::net::transport::Transport;

pyo3::create_exception!(
    poorhttp,
    RequestTimeout,
    PyException,
    "Raised inside an application that gave nothing for request_timeout seconds."
);

/// A WSGI application and what it needs of the server.
pub struct Application {
    app: Py<PyAny>,
    error_log: Py<PyAny>,
    environs: Environs,
    own: Arc<OwnFields>,
    write_timeout: Duration,
    seats: Vec<Seat>,
}

/// One serving thread.
#[derive(Default)]
struct Seat {
    /// Its identifier in Python.
    thread: AtomicI64,
    /// A RequestTimeout was sent to it.
    interrupted: AtomicBool,
}

/// An answer that waits for its client.
pub struct Suspended {
    exchange: Py<Exchange>,
    iterable: Py<PyAny>,
    /// None once it is used up: only `close()` is left to do.
    iterator: Option<Py<PyIterator>>,
    about: About,
}

/// Which request; for the log.
#[derive(Clone, Debug)]
struct About {
    peer: Option<SocketAddr>,
    line: String,
}

/// Where an iteration stands.
enum Progress {
    /// All blocks were given.
    Finished,
    /// The client has to take some first.
    Full,
    /// The client is gone.
    Gone,
}

impl Application {
    /// For `threads` serving threads.
    #[must_use]
    pub fn new(
        app: Py<PyAny>,
        error_log: Py<PyAny>,
        environs: Environs,
        own: OwnFields,
        write_timeout: Duration,
        threads: usize,
    ) -> Self {
        let seats = (0..threads).map(|_| Seat::default()).collect();
        Self { app, error_log, environs, own: Arc::new(own), write_timeout, seats }
    }

    /// Call, and take what comes back as far as it goes without waiting.
    fn respond<'py>(
        &self,
        exchange: &Bound<'py, Exchange>,
        returned: &Bound<'py, PyAny>,
        transport: &Transport,
        pulse: &clock::Pulse,
    ) -> PyResult<(Progress, Option<Bound<'py, PyIterator>>)> {
        if let Some(block) = only_block(returned) {
            self.whole(exchange, block.as_bytes(), transport)?;
            return Ok((Progress::Finished, None));
        }
        if let Ok(wrapper) = returned.cast_exact::<FileWrapper>()
            && let Some(progress) = self.file(exchange, wrapper, transport)?
        {
            return Ok((progress, None));
        }
        let iterator = returned.try_iter().map_err(|_| {
            PyTypeError::new_err(format!("the application returned {returned:?}, which is no iterable of bytes"))
        })?;
        let progress = self.iterate(exchange, &iterator, total(returned), transport, pulse)?;
        Ok((progress, Some(iterator)))
    }

    /// The usual case: one block that is the whole body.
    fn whole(&self, exchange: &Bound<'_, Exchange>, block: &[u8], transport: &Transport) -> PyResult<()> {
        let mut exchange = exchange.try_borrow_mut()?;
        self.commit(&mut exchange, Some(block.len() as u64))?;
        exchange.block(block, transport);
        Ok(())
    }

    /// A file that the kernel can send. None: it must be read.
    fn file(
        &self,
        exchange: &Bound<'_, Exchange>,
        wrapper: &Bound<'_, FileWrapper>,
        transport: &Transport,
    ) -> PyResult<Option<Progress>> {
        if exchange.try_borrow()?.is_committed() {
            return Ok(None);
        }
        let Some(range) = wrapper.try_borrow()?.range(wrapper.py()) else { return Ok(None) };
        let mut exchange = exchange.try_borrow_mut()?;
        self.commit(&mut exchange, Some(range.left))?;
        exchange.file(range);
        Ok(Some(match exchange.outbox.flush(transport) {
            Flushed::Drained => Progress::Finished,
            Flushed::Pending => Progress::Full,
            Flushed::Broken => Progress::Gone,
        }))
    }

    /// Take blocks. Each is on its way before the next is asked for (PEP 3333, "Buffering and Streaming").
    fn iterate<'py>(
        &self,
        exchange: &Bound<'py, Exchange>,
        iterator: &Bound<'py, PyIterator>,
        total: Option<u64>,
        transport: &Transport,
        pulse: &clock::Pulse,
    ) -> PyResult<Progress> {
        for block in iterator {
            let block = block?;
            pulse.beat();
            let block = block.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err(format!("the application gave {block:?} as a block of the body, not bytes"))
            })?;
            if block.as_bytes().is_empty() {
                continue;
            }
            let mut exchange = exchange.try_borrow_mut()?;
            if !exchange.is_committed() {
                self.commit(&mut exchange, total)?;
            }
            exchange.block(block.as_bytes(), transport);
            if exchange.is_bodiless() || exchange.overrun {
                return Ok(Progress::Finished);
            }
            if total.is_none() && exchange.outbox.flush(transport) == Flushed::Broken || exchange.outbox.is_broken() {
                return Ok(Progress::Gone);
            }
            if exchange.outbox.is_full() {
                return Ok(Progress::Full);
            }
        }
        let mut exchange = exchange.try_borrow_mut()?;
        if !exchange.is_committed() {
            self.commit(&mut exchange, Some(0))?;
        }
        Ok(Progress::Finished)
    }

    fn commit(&self, exchange: &mut Exchange, total: Option<u64>) -> PyResult<()> {
        if !exchange.has_started() {
            return Err(PyTypeError::new_err("the application gave a body before it called start_response()"));
        }
        if !exchange.is_committed() {
            exchange.commit(total);
        }
        Ok(())
    }

    /// What is left to do once nothing more is asked of the application, and what came out.
    fn conclude(
        &self,
        exchange: &Bound<'_, Exchange>,
        iterable: Option<&Bound<'_, PyAny>>,
        about: &dyn Fn() -> About,
    ) -> Done {
        let py = exchange.py();
        if let Some(iterable) = iterable
            && let Err(error) = close(iterable)
        {
            self.tell_exception(py, &error, &about());
        }
        let mut exchange = exchange.borrow_mut();
        let missing = if exchange.persistent || exchange.is_committed() { exchange.end() } else { 0 };
        if missing > 0 && !exchange.outbox.is_broken() {
            self.warn(py, &about(), &format!("the body is {missing} bytes shorter than its Content-Length"));
        }
        if exchange.overrun {
            self.warn(py, &about(), "the body is longer than its Content-Length; the rest is left out");
        }
        if !exchange.dropped.is_empty() {
            let names = exchange.dropped.join(", ");
            self.warn(py, &about(), &format!("hop-by-hop headers are the server's business; left out: {names}"));
        }
        Done { status: exchange.status(), length: exchange.length, persistent: exchange.persistent }
    }

    /// The application raised: 500 (504 after a timeout) if nothing is on its way, else the connection breaks off.
    fn fail(
        &self,
        exchange: &Bound<'_, Exchange>,
        error: &PyErr,
        iterable: Option<&Bound<'_, PyAny>>,
        about: &About,
    ) -> Done {
        let py = exchange.py();
        if let Some(iterable) = iterable
            && let Err(error) = close(iterable)
        {
            self.tell_exception(py, &error, about);
        }
        let is_gone = exchange.borrow().outbox.is_broken() && error.is_instance_of::<PyConnectionAbortedError>(py);
        let page = if is_gone { Vec::new() } else { self.tell_exception(py, error, about) };
        let mut exchange = exchange.borrow_mut();
        if exchange.is_committed() {
            // Without its end the body is seen to be incomplete.
            exchange.persistent = false;
        } else {
            exchange.roll_back();
            let is_late = error.is_instance_of::<RequestTimeout>(py);
            let status: &[u8] = if is_late { b"504 Gateway Timeout" } else { b"500 Internal Server Error" };
            let page = if is_late { self.page(504, "Gateway Timeout", "the application took too long") } else { page };
            exchange.answer(status, &page);
        }
        Done { status: exchange.status(), length: exchange.length, persistent: exchange.persistent }
    }

    /// Log a traceback. Returns the body of a 500 page.
    fn tell_exception(&self, py: Python<'_>, error: &PyErr, about: &About) -> Vec<u8> {
        let arguments = (error.value(py), remote(about.peer), about.line.as_str());
        let page = self.error_log.bind(py).call_method1(intern!(py, "exception"), arguments);
        page.and_then(|page| page.extract()).unwrap_or_default()
    }

    fn warn(&self, py: Python<'_>, about: &About, text: &str) {
        self.write_log(py, 'W', about.peer, &format!("{text} ({})", about.line));
    }

    fn write_log(&self, py: Python<'_>, level: char, peer: Option<SocketAddr>, text: &str) {
        let arguments = (level.to_string(), text, remote(peer));
        // A log that cannot be written has nobody to tell it to.
        let _ = self.error_log.bind(py).call_method1(intern!(py, "write"), arguments);
    }

    /// A RequestTimeout that came too late to be raised in its call must not be raised in the next one.
    fn forget_interrupt(&self, slot: usize) {
        if let Some(seat) = self.seats.get(slot)
            && seat.interrupted.swap(false, Ordering::Relaxed)
        {
            set_async_exception(seat.thread.load(Ordering::Relaxed), None);
        }
    }

    /// Finish a turn: hand the outbox back, and keep what goes on.
    fn hand_over(
        &self,
        exchange: &Bound<'_, Exchange>,
        result: PyResult<(Progress, Option<Bound<'_, PyIterator>>)>,
        iterable: Option<&Bound<'_, PyAny>>,
        outbox: &mut Outbox,
        about: &dyn Fn() -> About,
    ) -> Outcome<Suspended> {
        let done = match (result, iterable) {
            (Ok((Progress::Full, iterator)), Some(iterable)) => {
                *outbox = exchange.borrow_mut().release();
                return Outcome::Suspended(Suspended {
                    exchange: exchange.clone().unbind(),
                    iterable: iterable.clone().unbind(),
                    iterator: iterator.map(Bound::unbind),
                    about: about(),
                });
            }
            (Ok((Progress::Gone, _)), _) => {
                let mut done = self.conclude(exchange, iterable, about);
                done.persistent = false;
                done
            }
            (Ok(_), _) => self.conclude(exchange, iterable, about),
            (Err(error), _) => self.fail(exchange, &error, iterable, &about()),
        };
        *outbox = exchange.borrow_mut().release();
        Outcome::Done(done)
    }
}

impl Handler for Application {
    type Stream = Suspended;

    fn call(&self, mut request: Request<'_>, outbox: &mut Outbox) -> Outcome<Suspended> {
        Python::attach(|py| {
            let exchange = Exchange::new(
                std::mem::take(outbox),
                request.transport.clone(),
                request.asked,
                self.own.clone(),
                self.write_timeout,
            );
            let exchange = match Bound::new(py, exchange) {
                Ok(exchange) => exchange,
                Err(_) => return Outcome::Done(Done { status: 500, length: 0, persistent: false }),
            };
            let about = {
                let (head, bytes, peer) = (request.head, request.bytes, request.peer);
                move || About { peer, line: text_line(head, bytes) }
            };
            let returned = self.environs.build(py, &mut request).and_then(|environ| {
                let start_response = exchange.getattr(intern!(py, "start_response"))?;
                self.app.bind(py).call1((environ, start_response))
            });
            let result = returned
                .as_ref()
                .map_err(|error| error.clone_ref(py))
                .and_then(|returned| self.respond(&exchange, returned, request.transport, request.pulse));
            self.forget_interrupt(request.slot);
            self.hand_over(&exchange, result, returned.as_ref().ok(), outbox, &about)
        })
    }

    fn resume(&self, stream: Suspended, resumed: Resumed<'_>, outbox: &mut Outbox) -> Outcome<Suspended> {
        Python::attach(|py| {
            let exchange = stream.exchange.bind(py);
            {
                let mut exchange = exchange.borrow_mut();
                exchange.outbox = std::mem::take(outbox);
                exchange.transport = Some(resumed.transport.clone());
            }
            let iterator = stream.iterator.map(|iterator| iterator.into_bound(py));
            let is_broken = exchange.borrow().outbox.is_broken();
            let result = match iterator {
                _ if is_broken => Ok((Progress::Gone, None)),
                None => Ok((Progress::Finished, None)),
                Some(iterator) => self
                    .iterate(exchange, &iterator, None, resumed.transport, resumed.pulse)
                    .map(|progress| (progress, Some(iterator))),
            };
            self.forget_interrupt(resumed.slot);
            self.hand_over(exchange, result, Some(stream.iterable.bind(py)), outbox, &|| stream.about.clone())
        })
    }

    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R {
        Python::attach(|py| py.detach(wait))
    }

    fn report(&self, level: char, peer: Option<SocketAddr>, text: &str) {
        Python::attach(|py| self.write_log(py, level, peer, text));
    }

    fn page(&self, status: u16, reason: &str, text: &str) -> Vec<u8> {
        Python::attach(|py| {
            let page = self.error_log.bind(py).call_method1(intern!(py, "page"), (status, reason, text));
            page.and_then(|page| page.extract()).unwrap_or_else(|_| format!("{status} {reason}\n").into_bytes())
        })
    }

    fn server_header(&self) -> &[u8] {
        &self.own.server
    }

    fn utc_offset(&self, unix_second: u64) -> i64 {
        Python::attach(|py| {
            let offset = |py: Python<'_>| -> PyResult<i64> {
                py.import("time")?.call_method1("localtime", (unix_second,))?.getattr("tm_gmtoff")?.extract()
            };
            offset(py).unwrap_or(0)
        })
    }

    fn interrupt(&self, slot: usize, is_still_late: &dyn Fn() -> bool) {
        Python::attach(|py| {
            let Some(seat) = self.seats.get(slot) else { return };
            let thread = seat.thread.load(Ordering::Relaxed);
            let place = place_of(py, thread).unwrap_or_else(|_| "an unknown place".to_owned());
            // The thread holds the interpreter whenever it changes its pulse, so now it cannot.
            if is_still_late() {
                seat.interrupted.store(true, Ordering::Relaxed);
                set_async_exception(thread, Some(py.get_type::<RequestTimeout>().as_any()));
                let text = format!(
                    "a request works for longer than request_timeout, now at {place}; RequestTimeout is raised there"
                );
                self.write_log(py, 'W', None, &text);
            }
        });
    }

    fn enter(&self, slot: usize) {
        if let Some(seat) = self.seats.get(slot) {
            // SAFETY: it only reads the identifier of the calling thread.
            let thread = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
            seat.thread.store(i64::try_from(thread).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// The block of a list or tuple of one.
fn only_block<'a, 'py>(returned: &'a Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>>
where
    'py: 'a,
{
    let item = if let Ok(list) = returned.cast_exact::<PyList>() {
        (list.len() == 1).then(|| list.get_item(0).ok()).flatten()
    } else if let Ok(tuple) = returned.cast_exact::<PyTuple>() {
        (tuple.len() == 1).then(|| tuple.get_item(0).ok()).flatten()
    } else {
        None
    }?;
    item.cast_into_exact::<PyBytes>().ok().filter(|block| !block.as_bytes().is_empty())
}

/// The length of a body that is here as a whole.
fn total(returned: &Bound<'_, PyAny>) -> Option<u64> {
    let length =
        |block: Bound<'_, PyAny>| block.cast_exact::<PyBytes>().ok().map(|block| block.as_bytes().len() as u64);
    if let Ok(list) = returned.cast_exact::<PyList>() {
        list.iter().map(length).sum()
    } else if let Ok(tuple) = returned.cast_exact::<PyTuple>() {
        tuple.iter().map(length).sum()
    } else {
        None
    }
}

/// PEP 3333: `close()` is called once, however the request ended.
fn close(iterable: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = iterable.py();
    if iterable.is_exact_instance_of::<PyList>() || iterable.is_exact_instance_of::<PyTuple>() {
        return Ok(());
    }
    match iterable.getattr_opt(intern!(py, "close"))? {
        Some(close) => close.call0().map(|_| ()),
        None => Ok(()),
    }
}

fn remote(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string())
}

fn text_line(head: &crate::http::head::RequestHead, bytes: &[u8]) -> String {
    let (method, target) = (head.method.of(bytes), head.target.of(bytes));
    format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target))
}

/// File, line and function where a thread is.
fn place_of(py: Python<'_>, thread: i64) -> PyResult<String> {
    let frame = py.import("sys")?.call_method0("_current_frames")?.get_item(thread)?;
    let code = frame.getattr("f_code")?;
    let (file, name) = (code.getattr("co_filename")?, code.getattr("co_name")?);
    Ok(format!("{file}:{} in {name}", frame.getattr("f_lineno")?))
}

fn set_async_exception(thread: i64, exception: Option<&Bound<'_, PyAny>>) {
    let exception = exception.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: the caller is attached to the interpreter; the function takes its own reference, and a thread that is
    // gone makes it do nothing.
    unsafe { pyo3::ffi::PyThreadState_SetAsyncExc(thread, exception) };
}
