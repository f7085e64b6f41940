//! What the engine writes to the error log, by the `ErrorLog` of Python or, where the interpreter may not answer,
//! without it.
//!
//! Knows which request a line is about, as text. Errors of the log itself are dropped: there is nobody to tell.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use pyo3::intern;
use pyo3::prelude::*;

use super::serving_thread::ServingThread;
use super::text::native;
use crate::http::head::RequestHead;
use crate::net::clock;
use crate::net::report::append::append;
use crate::net::report::calendar::local_time;
use crate::net::report::scoreboard::Shown;

/// Which request a line of the log is about.
#[derive(Clone, Debug)]
pub struct RequestLabel {
    /// Its client; `None` on a unix socket.
    pub client: Option<SocketAddr>,
    /// Method and target.
    pub line: String,
}

impl RequestLabel {
    /// The label of the request with this head.
    pub fn new(client: Option<SocketAddr>, head: &RequestHead, bytes: &[u8]) -> Self {
        let (method, target) = (head.method.of(bytes), head.target.of(bytes));
        Self { client, line: format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target)) }
    }

    /// For what is no request.
    pub fn of_server(line: &str) -> Self {
        Self { client: None, line: line.to_owned() }
    }
}

/// The error log (`poorhttp.logs.log.ErrorLog`).
pub struct ErrorLog {
    log: Py<PyAny>,
    /// Its descriptor, if it has one.
    descriptor: Option<RawFd>,
    takes_warnings: bool,
    /// Seconds that local time was ahead of UTC at the start.
    utc_offset: i64,
}

impl ErrorLog {
    /// `takes_warnings`: whether its level lets warnings through.
    pub fn new(log: &Bound<'_, PyAny>, takes_warnings: bool) -> Self {
        let descriptor = log.call_method0(intern!(log.py(), "fileno")).and_then(|number| number.extract()).ok();
        let utc_offset = utc_offset(clock::unix_second());
        Self { log: log.clone().unbind(), descriptor, takes_warnings, utc_offset }
    }

    /// Write one line. `level` is a letter of the log's.
    pub fn write(&self, py: Python<'_>, level: char, client: Option<SocketAddr>, text: &str) {
        let _ = self.log.call_method1(py, intern!(py, "write"), (level, text, address(client)));
    }

    /// Warn about a request.
    pub fn warn(&self, py: Python<'_>, label: &RequestLabel, text: &str) {
        self.write(py, 'W', label.client, &format!("{text} ({})", label.line));
    }

    /// Write a line without the interpreter and without waiting for the reader of the log.
    pub fn write_detached(&self, level: char, client: Option<SocketAddr>, text: &str) {
        if let Some(descriptor) = self.descriptor.filter(|_| level != 'W' || self.takes_warnings) {
            let time = local_time(clock::unix_second(), self.utc_offset);
            append(descriptor, format!("{time}: [{}] [{level}] {text}\n", address(client)).as_bytes(), || false);
        }
    }

    /// Write where the thread is that works on `request`, as [`ErrorLog::stack`] returned it.
    pub fn write_trace(&self, py: Python<'_>, level: char, request: &Shown, text: &str, stack: Option<&str>) {
        let text = format!("{} {text}", native(py, &request.line));
        let stack = stack.unwrap_or("(it waits, and another greenlet runs on its thread)");
        let _ = self.log.call_method1(py, intern!(py, "write_trace"), (level, text, address(request.client), stack));
    }

    /// Write a traceback. Returns the body of a 500 page.
    pub fn exception(&self, py: Python<'_>, error: &PyErr, label: &RequestLabel) -> Vec<u8> {
        // The value carries its traceback; before Python 3.12 a `PyErr` holds them apart.
        let error = error.clone_ref(py).into_value(py);
        let arguments = (error, address(label.client), label.line.as_str());
        let page = self.log.bind(py).call_method1(intern!(py, "exception"), arguments);
        page.and_then(|page| page.extract()).unwrap_or_else(|_| {
            // The class of an exception may fail to give its own name and traceback.
            self.write(py, 'E', label.client, &format!("{}: an exception that cannot be told", label.line));
            self.page(py, 500, "Internal Server Error", "The application failed; the error log says more.")
        })
    }

    /// The body of an answer that the server gives itself.
    pub fn page(&self, py: Python<'_>, status: u16, reason: &str, text: &str) -> Vec<u8> {
        let page = self.log.bind(py).call_method1(intern!(py, "page"), (status, reason, text));
        page.and_then(|page| page.extract()).unwrap_or_else(|_| format!("{status} {reason}\n").into_bytes())
    }

    /// Where `thread` is in the application. Returns `None` if another greenlet than that of the call runs there.
    pub fn stack(&self, py: Python<'_>, thread: &ServingThread) -> Option<String> {
        let stack = self.log.bind(py).call_method1(intern!(py, "stack"), (thread.identifier(),));
        stack.and_then(|stack| stack.extract()).unwrap_or_else(|_| Some(String::new()))
    }
}

/// Seconds that local time was ahead of UTC at `unix_second`.
pub fn utc_offset(unix_second: u64) -> i64 {
    Python::attach(|py| {
        let offset = |py: Python<'_>| -> PyResult<i64> {
            py.import("time")?.call_method1("localtime", (unix_second,))?.getattr("tm_gmtoff")?.extract()
        };
        offset(py).unwrap_or(0)
    })
}

fn address(client: Option<SocketAddr>) -> String {
    client.map_or_else(|| "-".to_owned(), |client| client.ip().to_string())
}
