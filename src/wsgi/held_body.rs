//! What a handler of a dispatch table has written and nothing of which has been sent: parts, and room for more.
//!
//! Knows a list and a number; heads, files and servers are `poorhttp.dispatch`'s, whose `HeldBody` is the same in Python.
//! Nothing is locked, so that who sends what is held may write to it again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicIsize, Ordering};

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};

/// The base of `poorhttp.dispatch.answer.Answer`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
#[derive(Default)]
pub struct HeldBody {
    parts: OnceLock<Py<PyList>>,
    room: AtomicIsize,
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
        let (this, py) = (body.get(), body.py());
        if !data.is_instance_of::<PyString>() && !data.is_instance_of::<PyBytes>() {
            return body.call_method1(intern!(py, "_refuse"), (data,)).map(drop);
        }
        this.parts()?.bind(py).append(data)?;
        let length = data.len()?.cast_signed();
        if this.room.fetch_sub(length, Ordering::Relaxed) < length {
            body.call_method0(intern!(py, "_make_room"))?;
        }
        Ok(())
    }

    /// What is held may know who holds it. The list is what the collector empties.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.parts.get().map_or(Ok(()), |parts| visit.call(parts))
    }

    #[getter(_parts)]
    fn parts(&self) -> PyResult<&Py<PyList>> {
        self.parts.get().ok_or_else(|| PyAttributeError::new_err("_parts is not set"))
    }

    #[setter(_parts)]
    fn set_parts(&self, parts: Py<PyList>) -> PyResult<()> {
        self.parts.set(parts).map_err(|_| PyAttributeError::new_err("_parts is set already"))
    }

    #[getter(_room)]
    fn room(&self) -> isize {
        self.room.load(Ordering::Relaxed)
    }

    #[setter(_room)]
    fn set_room(&self, room: isize) {
        self.room.store(room, Ordering::Relaxed);
    }
}
