//! A serving thread as other threads see it: its identifier in Python, the exchange of its call, and how to interrupt
//! it.
//!
//! A request pays next to nothing for this: the thread stores one address. The watchdog's thread reads that address
//! while a call goes on. It holds the interpreter then, without which the serving thread changes nothing.

use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, Ordering};

use pyo3::exceptions::PyBaseException;
use pyo3::ffi::{PyObject, PyThread_get_thread_ident, PyThreadState_SetAsyncExc};
use pyo3::prelude::*;

use super::exchange::Exchange;

pyo3::create_exception!(
    poorhttp,
    RequestTimeout,
    PyBaseException,
    "Raised inside an application that gave nothing for request_timeout seconds."
);

/// One serving thread.
#[derive(Default)]
pub struct ServingThread {
    identifier: AtomicI64,
    /// A `RequestTimeout` was sent to it.
    is_interrupted: AtomicBool,
    /// The exchange of its call; null outside of calls.
    exchange: AtomicPtr<PyObject>,
}

impl ServingThread {
    /// Note that the calling thread is this one.
    pub fn enter(&self) {
        // SAFETY: it only reads the identifier of the calling thread.
        let identifier = unsafe { PyThread_get_thread_ident() };
        self.identifier.store(i64::try_from(identifier).unwrap_or(0), Ordering::Relaxed);
    }

    /// Its identifier in Python (`threading.get_ident()`).
    pub fn identifier(&self) -> i64 {
        self.identifier.load(Ordering::Relaxed)
    }

    /// Note that it serves with `exchange` until the guard is dropped.
    pub fn serve(&self, exchange: &Bound<'_, Exchange>) -> Serving<'_> {
        self.exchange.store(exchange.as_ptr(), Ordering::Relaxed);
        Serving(self)
    }

    /// The exchange of its call.
    pub fn exchange<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Exchange>> {
        let exchange = self.exchange.load(Ordering::Relaxed);
        // SAFETY: where it is not null the exchange is alive: `serve` got a reference that outlives its guard, which
        // is dropped by a thread that is attached; the caller is attached now.
        let exchange = unsafe { Bound::from_borrowed_ptr_or_opt(py, exchange) };
        exchange.and_then(|exchange| exchange.cast_into().ok())
    }

    /// Raise `RequestTimeout` in it at its next Python instruction.
    pub fn interrupt(&self, py: Python<'_>) {
        self.is_interrupted.store(true, Ordering::Relaxed);
        self.set_async_exception(py.get_type::<RequestTimeout>().as_ptr());
    }

    /// Forget an interrupt that came too late to be raised in its call: it must not be raised in the next one.
    pub fn forget_interrupt(&self) {
        if self.is_interrupted.load(Ordering::Relaxed) && self.is_interrupted.swap(false, Ordering::Relaxed) {
            self.set_async_exception(std::ptr::null_mut());
        }
    }

    fn set_async_exception(&self, exception: *mut PyObject) {
        // Python takes an unsigned number here, and pyo3 a signed one: above 2^31 it wraps on machines of 32 bits.
        #[allow(clippy::cast_possible_truncation)]
        let identifier = self.identifier() as c_long;
        // SAFETY: the caller is attached to the interpreter; the function takes its own reference, and a thread that is
        // gone makes it do nothing.
        unsafe { PyThreadState_SetAsyncExc(identifier, exception) };
    }
}

/// Lasts as long as a call.
pub struct Serving<'a>(&'a ServingThread);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.exchange.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}
