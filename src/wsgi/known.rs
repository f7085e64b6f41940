//! What others know of a serving thread: which it is, its exchange, whether it was interrupted.
//!
//! A thread tells of its exchange with next to no cost for a request: as a mere address. The watchdog's thread looks at it
//! for a call that goes on: it holds the interpreter then, without which the serving thread changes nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use pyo3::ffi::{PyObject, PyThread_get_thread_ident, PyThreadState_SetAsyncExc};
use pyo3::prelude::*;

use super::exchange::Exchange;
use crate::http::head::RequestHead;

/// Which request; for the log.
#[derive(Clone, Debug)]
pub struct About {
    /// Its client; none on a unix socket.
    pub peer: Option<SocketAddr>,
    /// Method and target.
    pub line: String,
}

/// Method and target of a request.
pub fn request_line(head: &RequestHead, bytes: &[u8]) -> String {
    let (method, target) = (head.method.of(bytes), head.target.of(bytes));
    format!("{} {}", String::from_utf8_lossy(method), String::from_utf8_lossy(target))
}

/// A serving thread.
#[derive(Default)]
pub struct Known {
    /// Its identifier in Python.
    identifier: AtomicI64,
    /// A RequestTimeout was sent to it.
    interrupted: AtomicBool,
    /// The exchange of a call, while it lasts.
    exchange: AtomicPtr<PyObject>,
}

impl Known {
    /// The calling thread is this one.
    pub fn enter(&self) {
        // SAFETY: it only reads the identifier of the calling thread.
        let identifier = unsafe { PyThread_get_thread_ident() };
        self.identifier.store(i64::try_from(identifier).unwrap_or(0), Ordering::Relaxed);
    }

    /// Its identifier in Python.
    pub fn identifier(&self) -> i64 {
        self.identifier.load(Ordering::Relaxed)
    }

    /// It serves with this exchange until the guard is dropped.
    pub fn serve(&self, exchange: &Bound<'_, Exchange>) -> Serving<'_> {
        self.exchange.store(exchange.as_ptr(), Ordering::Relaxed);
        Serving(self)
    }

    /// That exchange.
    pub fn exchange<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Exchange>> {
        let exchange = self.exchange.load(Ordering::Relaxed);
        // SAFETY: where it is not null the exchange is alive: `serve` got a reference that outlives its guard, which
        // is dropped by a thread that is attached; the caller is attached now.
        let exchange = unsafe { Bound::from_borrowed_ptr_or_opt(py, exchange) };
        exchange.and_then(|exchange| exchange.cast_into().ok())
    }

    /// Raise `exception` in it at its next Python instruction.
    pub fn interrupt(&self, exception: &Bound<'_, PyAny>) {
        self.interrupted.store(true, Ordering::Relaxed);
        set_async_exception(self.identifier(), Some(exception));
    }

    /// One that came too late to be raised in its call must not be raised in the next one.
    pub fn forget_interrupt(&self) {
        if self.interrupted.load(Ordering::Relaxed) && self.interrupted.swap(false, Ordering::Relaxed) {
            set_async_exception(self.identifier(), None);
        }
    }
}

/// The time of a call.
pub struct Serving<'a>(&'a Known);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.exchange.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

fn set_async_exception(thread: i64, exception: Option<&Bound<'_, PyAny>>) {
    let exception = exception.map_or(std::ptr::null_mut(), Bound::as_ptr);
    // SAFETY: the caller is attached to the interpreter; the function takes its own reference, and a thread that is
    // gone makes it do nothing.
    unsafe { PyThreadState_SetAsyncExc(thread, exception) };
}
