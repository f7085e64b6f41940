//! The Python objects of an answer that a thread uses again for its next request: making them anew costs a tenth of a
//! small request.
//!
//! Knows that an object is as good as new if nobody else refers to it.

use std::time::Duration;

use pyo3::intern;
use pyo3::prelude::*;

use super::exchange::Exchange;
use crate::http::own_fields::OwnFields;
use crate::net::clock::Pulse;

/// An exchange and its bound method `start_response`.
pub struct AnswerObjects {
    /// The exchange.
    pub exchange: Py<Exchange>,
    /// The `start_response` that the application gets.
    pub start_response: Py<PyAny>,
}

impl AnswerObjects {
    /// New ones, for the thread of this pulse.
    pub fn new(py: Python<'_>, pulse: Pulse, own: OwnFields, write_timeout: Duration) -> PyResult<Self> {
        let exchange = Bound::new(py, Exchange::new(pulse, own, write_timeout))?;
        let start_response = exchange.getattr(intern!(py, "start_response"))?.unbind();
        Ok(Self { exchange: exchange.unbind(), start_response })
    }

    /// Let go of them, and of the circle between the exchange and its bound `write`.
    pub fn dissolve(self, py: Python<'_>) {
        let write = self.exchange.bind(py).try_borrow_mut().map(|mut exchange| exchange.bound_write.take());
        drop(write);
    }

    /// These objects, if nobody else refers to them. The caller must hold one more reference to the exchange.
    pub fn if_unshared(self, py: Python<'_>) -> Option<Self> {
        let mut exchange = self.exchange.bind(py).try_borrow_mut().ok()?;
        let (write, of_write) = match &exchange.bound_write {
            Some(write) => (references(write), 1),
            None => (1, 0),
        };
        // These refer to the exchange: `self`, `start_response`, the borrow above, the caller, and `write` if there is
        // one.
        let is_alone =
            references(&self.start_response) == 1 && write == 1 && references(&self.exchange) == 4 + of_write;
        if !is_alone {
            // It refers to the exchange, which refers to it.
            exchange.bound_write = None;
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
