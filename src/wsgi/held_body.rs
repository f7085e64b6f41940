//! The body of an answer as far as a handler of a dispatch table has written it and nothing of it has been sent.
//!
//! Knows bytes and how many may be held; heads, files and servers are `poorhttp.dispatch`'s. No lock is held while
//! Python runs, so that what is called to send the body may write to it again.

use std::sync::Mutex;

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::net::team::lock;

/// What most pages fit into at once.
const FIRST: usize = 1024;

/// The base of `poorhttp.dispatch.answer.Answer`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
#[derive(Default)]
pub struct HeldBody {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    limit: usize,
    bytes: Vec<u8>,
    /// Some of them were given as bytes, not as text.
    raw: bool,
    /// What is written next stands behind something else, so that these go first.
    sealed: bool,
}

#[pymethods]
impl HeldBody {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> Self {
        Self::default()
    }

    /// Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full.
    fn write(body: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(text) = data.cast::<PyString>() {
            Self::add(body, text.to_str()?.as_bytes(), false)
        } else if let Ok(bytes) = data.cast::<PyBytes>() {
            Self::add(body, bytes.as_bytes(), true)
        } else {
            Err(PyTypeError::new_err(format!(
                "req.write() takes str or bytes, not {}: {}",
                data.get_type().name()?.to_string_lossy(),
                data.repr()?.to_string_lossy()
            )))
        }
    }

    fn _take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = {
            let mut held = lock(&self.held);
            held.sealed = false;
            std::mem::take(&mut held.bytes)
        };
        PyBytes::new_with(py, bytes.len(), |taken| {
            taken.copy_from_slice(&bytes);
            Ok(())
        })
    }

    fn _seal(&self) {
        let mut held = lock(&self.held);
        (held.raw, held.sealed) = (true, true);
    }

    fn _drop(&self) {
        let mut held = lock(&self.held);
        *held = Held { limit: held.limit, ..Held::default() };
    }

    #[getter]
    fn _holds(&self) -> bool {
        !lock(&self.held).bytes.is_empty()
    }

    #[getter]
    fn _raw(&self) -> bool {
        lock(&self.held).raw
    }

    #[setter(_limit)]
    fn set_limit(&self, limit: isize) {
        // A negative one is no room, as 0 is.
        lock(&self.held).limit = usize::try_from(limit).unwrap_or(0);
    }
}

impl HeldBody {
    fn add(body: &Bound<'_, Self>, bytes: &[u8], raw: bool) -> PyResult<()> {
        let mut held = lock(&body.get().held);
        if held.sealed {
            drop(held);
            Self::flush(body)?;
            held = lock(&body.get().held);
        }
        let least = if held.bytes.capacity() == 0 { FIRST } else { 0 };
        held.bytes.try_reserve(bytes.len().max(least)).map_err(|_| PyMemoryError::new_err(()))?;
        held.bytes.extend_from_slice(bytes);
        held.raw |= raw;
        let is_too_much = held.bytes.len() > held.limit;
        drop(held);
        if is_too_much { Self::flush(body) } else { Ok(()) }
    }

    fn flush(body: &Bound<'_, Self>) -> PyResult<()> {
        body.call_method0(intern!(body.py(), "flush")).map(drop)
    }
}
