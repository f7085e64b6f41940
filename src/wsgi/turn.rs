//! The end of a turn, which is one call of the application or one resumption of its answer: `close()`, what was wrong
//! with the body, and the answer to an exception.
//!
//! Knows what the application returned or raised. Does not call the application.

use pyo3::exceptions::PyConnectionAbortedError;
use pyo3::prelude::*;

use super::error_log::{ErrorLog, RequestLabel};
use super::exchange::Exchange;
use super::file_wrapper::FileWrapper;
use super::iteration::close;
use super::late_call::TOO_LONG;
use super::serving_thread::RequestTimeout;
use crate::net::handler::Done;

/// What came out if there is no exchange, or another thread keeps it.
pub const LOST: Done = Done { status: 500, length: 0, persistent: false };

/// A turn that ends.
pub struct Turn<'a, 'py> {
    /// Where faults are logged.
    pub log: &'a ErrorLog,
    /// The answer.
    pub exchange: &'a Bound<'py, Exchange>,
    /// What the application returned; `None` if it raised.
    pub iterable: Option<&'a Bound<'py, PyAny>>,
    /// Makes the label of the request, for a line of the log.
    pub label: &'a dyn Fn() -> RequestLabel,
}

impl Turn<'_, '_> {
    /// The application has given all of its answer.
    pub fn conclude(&self) -> Done {
        self.close();
        let Ok(mut exchange) = self.exchange.try_borrow_mut() else { return LOST };
        let missing = if exchange.persistent || exchange.is_committed() { exchange.end() } else { 0 };
        let lost = exchange.leave_file();
        if lost > 0 || missing > 0 && !exchange.outbox.is_broken() {
            let cause = if lost > 0 { "the file became shorter: " } else { "" };
            let missing = missing + lost;
            self.warn(&format!("{cause}the body is {missing} bytes shorter than its Content-Length"));
        }
        // A file that is longer is sent as far as Content-Length reaches, as PEP 3333 has it ("Optional
        // Platform-Specific File Handling"). In any other body that is a fault.
        let is_file = self.iterable.is_some_and(PyAnyMethods::is_exact_instance_of::<FileWrapper>);
        if exchange.overrun && !is_file {
            self.warn("the body is longer than its Content-Length; the rest is left out");
        }
        if !exchange.dropped.is_empty() {
            let names = exchange.dropped.join(", ");
            self.warn(&format!("hop-by-hop headers are the server's business; left out: {names}"));
        }
        done(&exchange)
    }

    /// The client is gone.
    pub fn leave(&self) -> Done {
        let done = self.conclude();
        // A stop may have broken it off; or another thread was in write() meanwhile.
        let _ = self.exchange.try_borrow_mut().map(|mut exchange| exchange.break_off());
        Done { persistent: false, ..done }
    }

    /// The application raised `error`: answer 500, or 504 after a timeout; break off an answer that has begun.
    pub fn fail(&self, error: &PyErr) -> Done {
        let py = self.exchange.py();
        self.close();
        let is_broken = self.exchange.try_borrow().is_ok_and(|exchange| exchange.outbox.is_broken());
        let is_gone = is_broken && error.is_instance_of::<PyConnectionAbortedError>(py);
        let page = if is_gone { Vec::new() } else { self.log.exception(py, error, &(self.label)()) };
        let Ok(mut exchange) = self.exchange.try_borrow_mut() else { return LOST };
        if exchange.is_committed() {
            exchange.end_early();
        } else {
            exchange.roll_back();
            if error.is_instance_of::<RequestTimeout>(py) {
                let page = self.log.page(py, 504, "Gateway Timeout", TOO_LONG);
                exchange.answer(b"504 Gateway Timeout", &page);
            } else {
                exchange.answer(b"500 Internal Server Error", &page);
            }
        }
        done(&exchange)
    }

    /// Call `close()` of what the application returned (PEP 3333).
    fn close(&self) {
        if let Some(Err(error)) = self.iterable.map(close) {
            self.log.exception(self.exchange.py(), &error, &(self.label)());
        }
    }

    fn warn(&self, text: &str) {
        self.log.warn(self.exchange.py(), &(self.label)(), text);
    }
}

fn done(exchange: &Exchange) -> Done {
    Done { status: exchange.status(), length: exchange.length, persistent: exchange.persistent }
}
