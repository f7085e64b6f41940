//! The way of a request through a WSGI application: environ in, an iterable out, the body taken from it, `close()`
//! always.
//!
//! Implements the network's [`Handler`]. Knows the order of the steps; what each step does is known by its own module.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyException, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::environ::{Environ, EnvironBuilder};
use super::error_log::{ErrorLog, RequestLabel, utc_offset};
use super::exchange::Exchange;
use super::file_wrapper::FileClasses;
use super::iteration::{Progress, iterate, take_body};
use super::last_environ::LastEnviron;
use super::late_call;
use super::reuse::AnswerObjects;
use super::sendfile_header::SendfileHeader;
use super::serving_thread::{RequestTimeout, ServingThread};
use super::turn::{LOST, Turn};
use crate::http::own_fields::OwnFields;
use crate::net::connections::outbox::Outbox;
use crate::net::handler::{Handler, Outcome, Request, Resumed, Thread};
use crate::net::report::scoreboard::Shown;

/// A WSGI application and what it needs of the server.
pub struct Application {
    app: Py<PyAny>,
    /// A second application, which answers requests for the status page.
    status: Option<Py<PyAny>>,
    log: ErrorLog,
    /// Called with the bytes of a report, if there is no supervisor to read them.
    report: Option<Py<PyAny>>,
    environs: EnvironBuilder,
    settings: AnswerSettings,
    file_classes: FileClasses,
    /// For the life of the process, as other threads look at them.
    threads: Vec<&'static ServingThread>,
    /// This process is a child that the application forked.
    is_forked: AtomicBool,
}

/// Settings of the answers.
pub struct AnswerSettings {
    /// The server's own fields.
    pub own: OwnFields,
    /// `write_timeout`.
    pub write_timeout: Duration,
    /// `sendfile_header`, if it is not empty.
    pub sendfile_header: Option<Arc<SendfileHeader>>,
}

/// The state that a serving thread keeps from one request to the next.
pub struct ThreadState {
    answer: Option<AnswerObjects>,
    environ: Option<Box<LastEnviron>>,
    thread: &'static ServingThread,
}

/// An answer that waits for its client.
pub struct Suspended {
    answer: AnswerObjects,
    iterable: Py<PyAny>,
    /// `None` once it is used up: only `close()` is left to do.
    iterator: Option<Py<PyIterator>>,
    label: RequestLabel,
}

/// How far a body was taken, and the iterator that has the rest.
type Taken<'py> = (Progress, Option<Bound<'py, PyIterator>>);

impl Application {
    /// For `threads` serving threads. `report` is called with each byte of a report, on a thread of its own.
    pub fn new(
        (app, status): (Py<PyAny>, Option<Py<PyAny>>),
        log: ErrorLog,
        report: Option<Py<PyAny>>,
        environs: EnvironBuilder,
        settings: AnswerSettings,
        threads: usize,
    ) -> Self {
        let threads = (0..threads).map(|_| &*Box::leak(Box::default())).collect();
        let (file_classes, is_forked) = (FileClasses::default(), AtomicBool::new(false));
        Self { app, status, log, report, environs, settings, file_classes, threads, is_forked }
    }

    /// Note that this process is a child that the application forked: from now on it sends nothing.
    pub fn abandon(&self, py: Python<'_>) {
        self.is_forked.store(true, Ordering::Relaxed);
        for exchange in self.threads.iter().filter_map(|thread| thread.exchange(py)) {
            // It is borrowed only while no code of the application runs, and such code has forked.
            let _ = exchange.try_borrow_mut().map(|mut exchange| exchange.outbox.break_off());
        }
    }

    /// The answer objects of the thread, made ready for `request`.
    fn begin(
        &self,
        py: Python<'_>,
        request: &mut Request<'_, ThreadState>,
        outbox: &mut Outbox,
    ) -> PyResult<AnswerObjects> {
        let answer = match request.thread.state.answer.take() {
            Some(answer) => answer,
            None => {
                let AnswerSettings { own, write_timeout, .. } = &self.settings;
                AnswerObjects::new(py, request.thread.pulse, own.clone(), *write_timeout)?
            }
        };
        {
            let mut exchange = answer.exchange.bind(py).try_borrow_mut()?;
            exchange.renew(std::mem::take(outbox), request.transport.clone(), request.asked);
            if request.peer.is_trusted {
                exchange.sendfile_header.clone_from(&self.settings.sendfile_header);
            }
            exchange.id.push_str(request.id);
        }
        Ok(answer)
    }

    fn build_environ<'py>(&self, py: Python<'py>, request: &mut Request<'_, ThreadState>) -> PyResult<Environ<'py>> {
        let mut last = request.thread.state.environ.take().unwrap_or_default();
        let environ = self.environs.build(py, &mut last, request);
        request.thread.state.environ = Some(last);
        environ
    }

    /// Call the application, or the one that answers for the status page.
    fn call_with<'py>(
        &self,
        environ: &mut Environ<'py>,
        answer: &AnswerObjects,
        asks_status: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = environ.dict.py();
        if let Some(file) = environ.input_file.take() {
            answer.exchange.bind(py).try_borrow_mut()?.input_file = Some(file);
        }
        let app = self.status.as_ref().filter(|_| asks_status).unwrap_or(&self.app);
        app.bind(py).call1((&environ.dict, answer.start_response.bind(py)))
    }

    /// End a turn: give the outbox back, and suspend what has to wait for the client.
    fn end_turn<'py>(
        &self,
        turn: &Turn<'_, 'py>,
        answer: AnswerObjects,
        taken: PyResult<Taken<'py>>,
        outbox: &mut Outbox,
        thread: &mut Thread<ThreadState>,
    ) -> Outcome<Suspended> {
        let (exchange, py) = (turn.exchange, turn.exchange.py());
        self.leave_if_forked(py, taken.as_ref().err());
        let done = match (taken, turn.iterable) {
            (Ok((Progress::Full, iterator)), Some(iterable)) => {
                *outbox = release(exchange);
                let (iterable, iterator) = (iterable.clone().unbind(), iterator.map(Bound::unbind));
                return Outcome::Suspended(Suspended { answer, iterable, iterator, label: (turn.label)() });
            }
            (Ok((Progress::Gone, _)), _) => turn.leave(),
            (Ok(_), _) => turn.conclude(),
            (Err(error), _) => turn.fail(&error),
        };
        *outbox = release(exchange);
        let input_file = exchange.try_borrow_mut().ok().and_then(|mut exchange| exchange.input_file.take());
        if let Some(file) = input_file {
            // The collector may come late, and a descriptor hangs on it. Closing it cannot fail.
            let _ = file.call_method0(py, intern!(py, "close"));
        }
        // An interrupt that came while the request was closed.
        thread.state.thread.forget_interrupt();
        self.leave_if_forked(py, None);
        keep(py, answer, &mut thread.state);
        Outcome::Done(done)
    }

    /// End this process if it is a child that the application forked and that came back here. Its exit code is the one
    /// that its author would expect. It shares every descriptor with the server, and must not answer.
    fn leave_if_forked(&self, py: Python<'_>, error: Option<&PyErr>) {
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
}

/// Take the outbox back; a broken one if another thread keeps the exchange.
fn release(exchange: &Bound<'_, Exchange>) -> Outbox {
    exchange.try_borrow_mut().map_or_else(|_| Outbox::broken(), |mut exchange| exchange.release())
}

/// Run `work`. If it panics, give the outbox back before the panic goes on; broken, if this answer has begun.
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

/// Keep the answer objects for the next request.
fn keep(py: Python<'_>, answer: AnswerObjects, state: &mut ThreadState) {
    match answer.if_unshared(py) {
        Some(answer) if state.answer.is_none() => state.answer = Some(answer),
        // Those of a stream that was resumed meanwhile.
        Some(answer) => answer.dissolve(py),
        None => {}
    }
}

impl Handler for Application {
    type Stream = Suspended;
    type ThreadState = ThreadState;

    fn call(&self, mut request: Request<'_, ThreadState>, outbox: &mut Outbox) -> Outcome<Suspended> {
        Python::attach(|py| {
            let Ok(answer) = self.begin(py, &mut request, outbox) else { return Outcome::Done(LOST) };
            let label = {
                let (head, bytes, client) = (request.head, request.bytes, request.peer.client());
                move || RequestLabel::new(client, head, bytes)
            };
            let exchange = answer.exchange.bind(py).clone();
            let thread = request.thread.state.thread;
            let _serving = thread.serve(&exchange);
            let outcome = giving_back(&exchange, outbox, |outbox| {
                let mut environ = self.build_environ(py, &mut request);
                let returned = match &mut environ {
                    Ok(environ) => self.call_with(environ, &answer, request.asks_status),
                    Err(error) => Err(error.clone_ref(py)),
                };
                // An environ that is not used again goes now, with what the application put into it.
                let environ = environ.ok().and_then(Environ::if_unaltered);
                let taken = match &returned {
                    Ok(returned) => {
                        take_body(&exchange, returned, &self.file_classes, request.transport, request.thread)
                    }
                    Err(error) => Err(error.clone_ref(py)),
                };
                thread.forget_interrupt();
                let iterable = returned.as_ref().ok();
                let turn = Turn { log: &self.log, exchange: &exchange, iterable, label: &label };
                let outcome = self.end_turn(&turn, answer, taken, outbox, request.thread);
                drop(returned);
                if let (Some(environ), Some(last)) = (environ, &mut request.thread.state.environ) {
                    last.keep(environ);
                }
                outcome
            });
            // An interrupt that came while the application's objects were let go.
            thread.forget_interrupt();
            outcome
        })
    }

    fn resume(&self, stream: Suspended, resumed: Resumed<'_, ThreadState>, outbox: &mut Outbox) -> Outcome<Suspended> {
        let Suspended { answer, iterable, iterator, label } = stream;
        Python::attach(|py| {
            let exchange = answer.exchange.bind(py).clone();
            let thread = resumed.thread.state.thread;
            let _serving = thread.serve(&exchange);
            let lent = exchange.try_borrow_mut().map(|mut exchange| {
                exchange.outbox = std::mem::take(outbox);
                exchange.transport = Some(resumed.transport.clone());
                exchange.outbox.is_broken()
            });
            // If another thread keeps the exchange, the application can only be told to clean up.
            let is_gone = lent.as_ref().map_or(true, |is_broken| *is_broken);
            let outcome = giving_back(&exchange, outbox, |outbox| {
                let taken = match iterator.map(|iterator| iterator.into_bound(py)) {
                    _ if is_gone => Ok((Progress::Gone, None)),
                    None => Ok((Progress::Finished, None)),
                    Some(iterator) => iterate(&exchange, &iterator, None, resumed.transport, resumed.thread)
                        .map(|progress| (progress, Some(iterator))),
                };
                thread.forget_interrupt();
                let iterable = iterable.into_bound(py);
                let (log, label) = (&self.log, || label.clone());
                let turn = Turn { log, exchange: &exchange, iterable: Some(&iterable), label: &label };
                self.end_turn(&turn, answer, taken, outbox, resumed.thread)
            });
            thread.forget_interrupt();
            if lent.is_err() {
                outbox.break_off();
            }
            outcome
        })
    }

    fn detached<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> R {
        Python::attach(|py| py.detach(wait))
    }

    fn report(&self, level: char, peer: Option<SocketAddr>, text: &str) {
        Python::attach(|py| self.log.write(py, level, peer, text));
    }

    fn last_words(&self, text: &str) {
        self.log.write_detached('C', None, text);
    }

    fn warn(&self, client: Option<SocketAddr>, text: &str) {
        self.log.write_detached('W', client, text);
    }

    fn page(&self, status: u16, reason: &str, text: &str) -> Vec<u8> {
        Python::attach(|py| self.log.page(py, status, reason, text))
    }

    fn server_header(&self) -> &[u8] {
        self.settings.own.server()
    }

    fn utc_offset(&self, unix_second: u64) -> i64 {
        utc_offset(unix_second)
    }

    fn interrupt(&self, slot: usize, request: &Shown, age: Option<u64>, is_still_late: &dyn Fn() -> bool) {
        let Some(thread) = self.threads.get(slot) else { return };
        Python::attach(|py| late_call::interrupt(py, &self.log, thread, request, age, is_still_late));
    }

    fn give_up(&self, slot: usize, request: &Shown, age: u64, is_still_late: &dyn Fn() -> bool) -> bool {
        let Some(thread) = self.threads.get(slot) else { return false };
        Python::attach(|py| late_call::give_up(py, &self.log, thread, request, age, is_still_late))
    }

    fn hear_report(&self, byte: u8) {
        Python::attach(|py| {
            if let Some(Err(error)) = self.report.as_ref().map(|report| report.call1(py, (byte,))) {
                self.log.exception(py, &error, &RequestLabel::of_server("the watchdog"));
            }
        });
    }

    fn hear_signals(&self) -> bool {
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                self.log.exception(py, &error, &RequestLabel::of_server("a signal handler"));
                // SystemExit and KeyboardInterrupt end the server, as they would end another program. The
                // RequestTimeout of a call that has just returned does not.
                !error.is_instance_of::<PyException>(py) && !error.is_instance_of::<RequestTimeout>(py)
            }
        })
    }

    fn enter(&self, slot: usize) -> ThreadState {
        let thread = self.threads.get(slot).copied().unwrap_or_else(|| Box::leak(Box::default()));
        thread.enter();
        ThreadState { answer: None, environ: None, thread }
    }
}
