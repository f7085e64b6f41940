//! What a handler of a dispatch table has written and nothing of which has been sent: its bytes, and room for more.
//!
//! Knows bytes and a number; heads, files and servers are `poorhttp.dispatch`'s, whose `HeldBody` is the same in Python.
//! Nothing is locked while Python runs, so that who sends what is held may write to it again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::net::threads::team::lock;

/// Most bodies get along with what is reserved for one at its first bytes.
const USUAL: usize = 1000;

/// The base of `poorhttp.dispatch.answer.Answer`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
#[derive(Default)]
pub struct HeldBody {
    /// None: nothing was written.
    bytes: Mutex<Option<Vec<u8>>>,
    limit: AtomicIsize,
    room: AtomicIsize,
    /// Some of it was written as bytes.
    is_raw: AtomicBool,
}

#[pymethods]
impl HeldBody {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> Self {
        Self::default()
    }

    /// Hold nothing, with room for so much.
    fn _hold(&self, limit: isize) {
        *lock(&self.bytes) = None;
        self.limit.store(limit, Ordering::Relaxed);
        self.room.store(limit, Ordering::Relaxed);
        self.is_raw.store(false, Ordering::Relaxed);
    }

    /// Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full.
    fn write(body: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (this, py) = (body.get(), body.py());
        let bytes = if let Ok(text) = data.cast::<PyString>() {
            text.to_str()?.as_bytes()
        } else if let Ok(bytes) = data.cast::<PyBytes>() {
            this.is_raw.store(true, Ordering::Relaxed);
            bytes.as_bytes()
        } else {
            return body.call_method1(intern!(py, "_refuse"), (data,)).map(drop);
        };
        if this.room() < 0 {
            body.call_method0(intern!(py, "flush"))?;
        }
        lock(&this.bytes).get_or_insert_with(|| Vec::with_capacity(USUAL.max(bytes.len()))).extend_from_slice(bytes);
        let length = bytes.len().cast_signed();
        if this.room.fetch_sub(length, Ordering::Relaxed) < length {
            body.call_method0(intern!(py, "flush"))?;
        }
        Ok(())
    }

    /// What was written, and hold nothing any more.
    fn _take<'py>(body: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let (this, py) = (body.get(), body.py());
        let taken = lock(&this.bytes).take();
        this.set_room(this.limit());
        if this.is_raw.swap(false, Ordering::Relaxed) {
            body.setattr(intern!(py, "_raw"), true)?;
        }
        Ok(PyBytes::new(py, taken.as_deref().unwrap_or_default()))
    }

    /// Whether something was written, were it empty.
    fn _holds(&self) -> bool {
        lock(&self.bytes).is_some()
    }

    #[getter(_limit)]
    fn limit(&self) -> isize {
        self.limit.load(Ordering::Relaxed)
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
