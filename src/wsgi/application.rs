//! Calling the application: environ in, an iterable out, `close()` always, and what becomes of its exceptions.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyBaseException, PyConnectionAbortedError, PyException, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::environ::{Draft, Environ, Environs};
use super::exchange::{Exchange, Kit};
use super::file_wrapper::FileWrapper;
use super::handover::Handover;
use super::iteration::{Progress, close, iterate, take_body};
use super::known::{About, Known, request_line};
use super::text::native;
use crate::http::own_fields::OwnFields;
use crate::net::clock;
use crate::net::connections::outbox::Outbox;
use crate::net::handler::{Done, Handler, Outcome, Request, Resumed, Thread};
use crate::net::report::access_log::local_time;
use crate::net::report::append::append;
use crate::net::report::board::Shown;

pyo3::create_exception!(
    poorhttp,
    RequestTimeout,
    PyBaseException,
    "Raised inside an application that gave nothing for request_timeout seconds."
);

/// A WSGI application and what it needs of the server.
pub struct Application {
    app: Py<PyAny>,
    /// What answers who asks what this server does: an application like the other one.
    status: Option<Py<PyAny>>,
    error_log: Py<PyAny>,
    /// What to call with what a supervisor would be told, where there is none.
    told: Option<Py<PyAny>>,
    /// The descriptor of the error log, if it has one, for what is written without the interpreter.
    error_descriptor: Option<RawFd>,
    /// Seconds that local time was ahead of UTC at the start.
    utc_offset: i64,
    environs: Environs,
    manner: Manner,
    /// For the life of the process, as other threads look at them.
    threads: Vec<&'static Known>,
    /// This process is a child that the application forked.
    is_forked: AtomicBool,
}

/// How answers are given.
pub struct Manner {
    /// The fields of the server's own.
    pub own: OwnFields,
    /// `write_timeout`.
    pub write_timeout: Duration,
    /// How files are handed over to front servers, if they are.
    pub handover: Option<Arc<Handover>>,
    /// The error log takes warnings.
    pub warns: bool,
}

/// What a serving thread uses again for its next request.
pub struct Seat {
    kit: Option<Kit>,
    /// What it keeps of the environ of its last request.
    pub draft: Option<Box<Draft>>,
    /// What others know of it.
    pub known: &'static Known,
}

/// What a turn gives back at its end.
struct Lent<'a> {
    outbox: &'a mut Outbox,
    thread: &'a mut Thread<Seat>,
}

/// An answer that waits for its client.
pub struct Suspended {
    kit: Kit,
    iterable: Py<PyAny>,
    /// None once it is used up: only `close()` is left to do.
    iterator: Option<Py<PyIterator>>,
    about: About,
}

impl Application {
    /// Note that this process is a child that the application forked: from now on it sends nothing.
    pub fn abandon(&self, py: Python<'_>) {
        self.is_forked.store(true, Ordering::Relaxed);
        for exchange in self.threads.iter().filter_map(|known| known.exchange(py)) {
            // It is borrowed only where no code of the application runs, which is what forked.
            let _ = exchange.try_borrow_mut().map(|mut exchange| exchange.outbox.break_off());
        }
    }

    /// For `threads` serving threads. `status` answers who asks what this server does. `told` is called, on a thread of its own, with what a supervisor would be told.
    pub fn new(
        (app, status): (Py<PyAny>, Option<Py<PyAny>>),
        error_log: Py<PyAny>,
        told: Option<Py<PyAny>>,
        environs: Environs,
        manner: Manner,
        threads: usize,
    ) -> Self {
        let threads = (0..threads).map(|_| &*Box::leak(Box::default())).collect();
        let error_descriptor = Python::attach(|py| {
            error_log.bind(py).call_method0(intern!(py, "fileno")).and_then(|number| number.extract()).ok()
        });
        Self {
            app,
            status,
            error_log,
            told,
            error_descriptor,
            utc_offset: utc_offset(clock::unix_second()),
            environs,
            manner,
            threads,
            is_forked: AtomicBool::new(false),
        }
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
        let Ok(mut exchange) = exchange.try_borrow_mut() else { return LOST };
        let missing = if exchange.persistent || exchange.is_committed() { exchange.end() } else { 0 };
        let lost = exchange.leave_file();
        if lost > 0 || missing > 0 && !exchange.outbox.is_broken() {
            let cause = if lost > 0 { "the file became shorter: " } else { "" };
            let missing = missing + lost;
            self.warn(py, &about(), &format!("{cause}the body is {missing} bytes shorter than its Content-Length"));
        }
        // A file that is longer is sent as far as Content-Length reaches, as PEP 3333 has it ("Optional Platform-Specific
        // File Handling"); of any other body that is a fault.
        let is_file = iterable.is_some_and(PyAnyMethods::is_exact_instance_of::<FileWrapper>);
        if exchange.overrun && !is_file {
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
        let is_broken = exchange.try_borrow().is_ok_and(|exchange| exchange.outbox.is_broken());
        let is_gone = is_broken && error.is_instance_of::<PyConnectionAbortedError>(py);
        let page = if is_gone { Vec::new() } else { self.tell_exception(py, error, about) };
        let Ok(mut exchange) = exchange.try_borrow_mut() else { return LOST };
        if exchange.is_committed() {
            exchange.cut_short();
        } else {
            exchange.roll_back();
            let is_late = error.is_instance_of::<RequestTimeout>(py);
            let status: &[u8] = if is_late { b"504 Gateway Timeout" } else { b"500 Internal Server Error" };
            let page = if is_late { self.page(504, "Gateway Timeout", TOO_LONG) } else { page };
            exchange.answer(status, &page);
        }
        Done { status: exchange.status(), length: exchange.length, persistent: exchange.persistent }
    }

    /// Log a traceback. Returns the body of a 500 page.
    fn tell_exception(&self, py: Python<'_>, error: &PyErr, about: &About) -> Vec<u8> {
        // As a value of its own it carries its traceback, which before Python 3.12 it does not otherwise.
        let error = error.clone_ref(py).into_value(py);
        let arguments = (error, remote(about.peer), about.line.as_str());
        let page = self.error_log.bind(py).call_method1(intern!(py, "exception"), arguments);
        page.and_then(|page| page.extract()).unwrap_or_else(|_| {
            // An exception may lie about its own name and traceback.
            self.write_log(py, 'E', about.peer, &format!("{}: an exception that cannot be told", about.line));
            self.page(500, "Internal Server Error", "The application failed; the error log says more.")
        })
    }

    fn warn(&self, py: Python<'_>, about: &About, text: &str) {
        self.write_log(py, 'W', about.peer, &format!("{text} ({})", about.line));
    }

    fn write_log(&self, py: Python<'_>, level: char, peer: Option<SocketAddr>, text: &str) {
        let arguments = (level.to_string(), text, remote(peer));
        // A log that cannot be written has nobody to tell it to.
        let _ = self.error_log.bind(py).call_method1(intern!(py, "write"), arguments);
    }

    /// Write a line of the error log without the interpreter and without waiting for anybody.
    fn write_detached(&self, level: char, client: Option<SocketAddr>, text: &str) {
        if let Some(descriptor) = self.error_descriptor {
            let time = local_time(clock::unix_second(), self.utc_offset);
            append(descriptor, format!("{time}: [{}] [{level}] {text}\n", remote(client)).as_bytes(), || false);
        }
    }

    /// Log where the thread is that works on `request`.
    fn write_trace(&self, py: Python<'_>, level: char, request: &Shown, text: &str, trace: &str) {
        let line = native(py, &request.line);
        let arguments = (level.to_string(), format!("{line} {text}"), remote(request.client), trace);
        // A log that cannot be written has nobody to tell it to.
        let _ = self.error_log.bind(py).call_method1(intern!(py, "write_trace"), arguments);
    }

    /// Where the thread of `known` is; none where another greenlet than that of the call runs there.
    fn stack(&self, py: Python<'_>, known: &Known) -> Option<String> {
        let stack = self.error_log.bind(py).call_method1(intern!(py, "stack"), (known.identifier(),));
        stack.and_then(|stack| stack.extract()).unwrap_or_else(|_| Some(String::new()))
    }

    /// In a child that the application forked and that came back here: end it, as its author meant. It shares every
    /// descriptor with this server, and must not answer.
    fn leave_if_forked_by(&self, py: Python<'_>, error: Option<&PyErr>) {
        if !self.is_forked.load(Ordering::Relaxed) {
            return;
        }
        let code = match error {
            Some(error) if error.is_instance_of::<PySystemExit>(py) => {
                let code = error.value(py).getattr(intern!(py, "code")).and_then(|code| code.extract::<Option<i32>>());
                code.unwrap_or(Some(1)).unwrap_or(0)
            }
            Some(_) => 1,
            None => 0,
        };
        let _ = py.import("os").and_then(|os| os.call_method1("_exit", (code,)));
    }

    /// Call the application, or what answers in its place where somebody asks what this server does.
    fn call_with<'py>(&self, environ: &Environ<'py>, kit: &Kit, asks_status: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = environ.dict.py();
        kit.exchange.bind(py).try_borrow_mut()?.input_file = environ.file.as_ref().map(|file| file.clone_ref(py));
        let app = self.status.as_ref().filter(|_| asks_status).unwrap_or(&self.app);
        app.bind(py).call1((&environ.dict, kit.start_response.bind(py)))
    }

    fn take_kit(&self, py: Python<'_>, request: &mut Request<'_, Seat>) -> PyResult<Kit> {
        match request.thread.seat.kit.take() {
            Some(kit) => Ok(kit),
            None => Kit::new(py, request.thread.pulse, self.manner.own.clone(), self.manner.write_timeout),
        }
    }

    /// Finish a turn: hand the outbox back, and keep what goes on.
    fn hand_over<'py>(
        &self,
        py: Python<'py>,
        kit: Kit,
        result: PyResult<(Progress, Option<Bound<'py, PyIterator>>)>,
        iterable: Option<&Bound<'py, PyAny>>,
        lent: &mut Lent<'_>,
        about: &dyn Fn() -> About,
    ) -> Outcome<Suspended> {
        self.leave_if_forked_by(py, result.as_ref().err());
        let exchange = kit.exchange.bind(py);
        let done = match (result, iterable) {
            (Ok((Progress::Full, iterator)), Some(iterable)) => {
                *lent.outbox = release(exchange);
                let about = about();
                return Outcome::Suspended(Suspended {
                    kit,
                    iterable: iterable.clone().unbind(),
                    iterator: iterator.map(Bound::unbind),
                    about,
                });
            }
            (Ok((Progress::Gone, _)), _) => {
                let mut done = self.conclude(exchange, iterable, about);
                done.persistent = false;
                // A stop may have broken it off; or another thread was in write() meanwhile.
                let _ = exchange.try_borrow_mut().map(|mut exchange| exchange.break_off());
                done
            }
            (Ok(_), _) => self.conclude(exchange, iterable, about),
            (Err(error), _) => self.fail(exchange, &error, iterable, &about()),
        };
        *lent.outbox = release(exchange);
        let file = exchange.try_borrow_mut().ok().and_then(|mut exchange| exchange.input_file.take());
        if let Some(file) = file {
            // Not left to the collector, which may come late: a descriptor hangs on it. Closing it cannot fail.
            let _ = file.call_method0(py, intern!(py, "close"));
        }
        // One that came while the request was closed.
        lent.thread.seat.known.forget_interrupt();
        self.leave_if_forked_by(py, None);
        keep_kit(py, kit, &mut lent.thread.seat);
        Outcome::Done(done)
    }
}

const TOO_LONG: &str = "the application took too long";
const SWITCHED: &str = "(it waits, and another greenlet runs on its thread)";

/// What came out where there is no exchange, or another thread keeps it.
const LOST: Done = Done { status: 500, length: 0, persistent: false };

/// Take the outbox back; a broken one where another thread keeps the exchange.
fn release(exchange: &Bound<'_, Exchange>) -> Outbox {
    exchange.try_borrow_mut().map_or_else(|_| Outbox::broken(), |mut exchange| exchange.release())
}

/// Run `work`; if it panics, give the outbox back before, broken if this answer has begun.
fn giving_back<R>(exchange: &Bound<'_, Exchange>, outbox: &mut Outbox, work: impl FnOnce(&mut Outbox) -> R) -> R {
    catch_unwind(AssertUnwindSafe(|| work(&mut *outbox))).unwrap_or_else(|panic| {
        match exchange.try_borrow_mut() {
            Ok(mut exchange) if exchange.transport.is_some() => {
                exchange.roll_back();
                *outbox = exchange.release();
                if exchange.is_committed() {
                    outbox.break_off();
                }
            }
            _ => outbox.break_off(),
        }
        resume_unwind(panic)
    })
}

impl Handler for Application {
    type Stream = Suspended;
    type Seat = Seat;

    fn call(&self, mut request: Request<'_, Seat>, outbox: &mut Outbox) -> Outcome<Suspended> {
        Python::attach(|py| {
            let Ok(kit) = self.take_kit(py, &mut request) else {
                return Outcome::Done(LOST);
            };
            let exchange = kit.exchange.bind(py);
            match exchange.try_borrow_mut() {
                Ok(mut exchange) => {
                    exchange.renew(std::mem::take(outbox), request.transport.clone(), request.asked);
                    if request.peer.is_trusted {
                        exchange.handover.clone_from(&self.manner.handover);
                    }
                    exchange.id.push_str(request.id);
                }
                // Nobody else knows it.
                Err(_) => return Outcome::Done(LOST),
            }
            let about = {
                let (head, bytes, peer) = (request.head, request.bytes, request.peer.client());
                move || About { peer, line: request_line(head, bytes) }
            };
            let exchange = exchange.clone();
            let known = request.thread.seat.known;
            let _served = known.serve(&exchange);
            let outcome = giving_back(&exchange, outbox, |outbox| {
                let environ = self.environs.build(py, &mut request);
                let returned = match &environ {
                    Ok(environ) => self.call_with(environ, &kit, request.asks_status),
                    Err(error) => Err(error.clone_ref(py)),
                };
                // What the application put in there is let go as soon as under other servers.
                let environ = environ.ok().filter(Environ::is_unaltered);
                let result = returned
                    .as_ref()
                    .map_err(|error| error.clone_ref(py))
                    .and_then(|returned| take_body(&exchange, returned, request.transport, request.thread));
                known.forget_interrupt();
                let outcome = self.hand_over(
                    py,
                    kit,
                    result,
                    returned.as_ref().ok(),
                    &mut Lent { outbox, thread: request.thread },
                    &about,
                );
                drop(returned);
                if let (Some(environ), Some(draft)) = (environ, &mut request.thread.seat.draft) {
                    draft.keep(environ);
                }
                outcome
            });
            // One that came while the application's objects were let go.
            known.forget_interrupt();
            outcome
        })
    }

    fn resume(&self, stream: Suspended, resumed: Resumed<'_, Seat>, outbox: &mut Outbox) -> Outcome<Suspended> {
        Python::attach(|py| {
            let exchange = stream.kit.exchange.bind(py).clone();
            let known = resumed.thread.seat.known;
            let _served = known.serve(&exchange);
            let is_lent = exchange.try_borrow_mut().map(|mut exchange| {
                exchange.outbox = std::mem::take(outbox);
                exchange.transport = Some(resumed.transport.clone());
                exchange.outbox.is_broken()
            });
            // Where another thread keeps the exchange, the application can only be told to clean up.
            let is_broken = is_lent.as_ref().map_or(true, |is_broken| *is_broken);
            let outcome = giving_back(&exchange, outbox, |outbox| {
                let iterator = stream.iterator.map(|iterator| iterator.into_bound(py));
                let result = match iterator {
                    _ if is_broken => Ok((Progress::Gone, None)),
                    None => Ok((Progress::Finished, None)),
                    Some(iterator) => iterate(&exchange, &iterator, None, resumed.transport, resumed.thread)
                        .map(|progress| (progress, Some(iterator))),
                };
                known.forget_interrupt();
                let about = stream.about;
                let iterable = stream.iterable.bind(py);
                self.hand_over(
                    py,
                    stream.kit,
                    result,
                    Some(iterable),
                    &mut Lent { outbox, thread: resumed.thread },
                    &|| about.clone(),
                )
            });
            known.forget_interrupt();
            if is_lent.is_err() {
                outbox.break_off();
            }
            outcome
        })
    }

    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R {
        Python::attach(|py| py.detach(wait))
    }

    fn report(&self, level: char, peer: Option<SocketAddr>, text: &str) {
        Python::attach(|py| self.write_log(py, level, peer, text));
    }

    fn last_words(&self, text: &str) {
        self.write_detached('C', None, text);
    }

    fn warn(&self, client: Option<SocketAddr>, text: &str) {
        if self.manner.warns {
            self.write_detached('W', client, text);
        }
    }

    fn page(&self, status: u16, reason: &str, text: &str) -> Vec<u8> {
        Python::attach(|py| {
            let page = self.error_log.bind(py).call_method1(intern!(py, "page"), (status, reason, text));
            page.and_then(|page| page.extract()).unwrap_or_else(|_| format!("{status} {reason}\n").into_bytes())
        })
    }

    fn server_header(&self) -> &[u8] {
        self.manner.own.server()
    }

    fn utc_offset(&self, unix_second: u64) -> i64 {
        utc_offset(unix_second)
    }

    fn interrupt(&self, slot: usize, request: &Shown, age: Option<u64>, is_still_late: &dyn Fn() -> bool) {
        Python::attach(|py| {
            let Some(known) = self.threads.get(slot) else { return };
            let stack = self.stack(py, known);
            // The thread holds the interpreter whenever it changes its pulse, so now it cannot.
            if !is_still_late() {
                return;
            }
            let what = age.map_or_else(
                || "is still at work at the end of graceful_timeout".to_owned(),
                |age| format!("has been at work for {}", seconds(age)),
            );
            // In another greenlet it would end what is not late.
            let not = if stack.is_none() { " not" } else { "" };
            if stack.is_some() {
                known.interrupt(py.get_type::<RequestTimeout>().as_any());
            }
            let text = format!("{what}; RequestTimeout is{not} raised in it, here:");
            self.write_trace(py, 'W', request, &text, stack.as_deref().unwrap_or(SWITCHED));
        });
    }

    fn give_up(&self, slot: usize, request: &Shown, age: u64, is_still_late: &dyn Fn() -> bool) -> bool {
        Python::attach(|py| {
            let Some(known) = self.threads.get(slot) else { return false };
            let stack = self.stack(py, known);
            let page = self.page(504, "Gateway Timeout", TOO_LONG);
            if !is_still_late() {
                return false;
            }
            let is_answered = known
                .exchange(py)
                .is_some_and(|exchange| exchange.try_borrow_mut().is_ok_and(|mut exchange| exchange.give_up(&page)));
            let answer = if is_answered { "it is answered 504" } else { "its answer is broken off" };
            let text = format!("has been at work for {} and does not return; {answer}; it is here:", seconds(age));
            self.write_trace(py, 'E', request, &text, stack.as_deref().unwrap_or(SWITCHED));
            is_answered
        })
    }

    fn told(&self, what: u8) {
        Python::attach(|py| {
            if let Some(Err(error)) = self.told.as_ref().map(|told| told.call1(py, (what,))) {
                self.tell_exception(py, &error, &About { peer: None, line: "the watchdog".to_owned() });
            }
        });
    }

    fn hear_signals(&self) -> bool {
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                let about = About { peer: None, line: "a signal handler".to_owned() };
                self.tell_exception(py, &error, &about);
                // SystemExit and KeyboardInterrupt ask for the end, as they would in a program of its own.
                // A RequestTimeout of a call that has just returned does not.
                !error.is_instance_of::<PyException>(py) && !error.is_instance_of::<RequestTimeout>(py)
            }
        })
    }

    fn enter(&self, slot: usize) -> Seat {
        let known = self.threads.get(slot).copied().unwrap_or_else(|| Box::leak(Box::default()));
        known.enter();
        Seat { kit: None, draft: None, known }
    }
}

fn keep_kit(py: Python<'_>, kit: Kit, seat: &mut Seat) {
    match kit.reusable(py) {
        Some(kit) if seat.kit.is_none() => seat.kit = Some(kit),
        // That of a stream which was resumed meanwhile.
        Some(kit) => kit.dissolve(py),
        None => {}
    }
}

/// Seconds that local time was ahead of UTC then.
pub fn utc_offset(unix_second: u64) -> i64 {
    Python::attach(|py| {
        let offset = |py: Python<'_>| -> PyResult<i64> {
            py.import("time")?.call_method1("localtime", (unix_second,))?.getattr("tm_gmtoff")?.extract()
        };
        offset(py).unwrap_or(0)
    })
}

fn remote(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "-".to_owned(), |peer| peer.ip().to_string())
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}
