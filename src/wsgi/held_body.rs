//! The body that a handler of a dispatch table has written and that is not sent yet: its bytes, and the room for more.
//!
//! Knows bytes and a number; heads, files and servers are the business of `poorhttp.dispatch`, which has the same class
//! in Python for other servers. It is here too because there each `write()` costs 0.08 us, and here 0.04: a page of
//! 1,000 pieces takes a fifth to nine tenths more in Python, and the `light` page of `bench cost` a twentieth. Nothing
//! is locked while Python runs: code that sends the body may write to it again.

use std::sync::Mutex;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::net::lock::lock;

/// Bytes that are reserved at the first write; enough for most bodies.
const USUAL: usize = 1000;

/// The base of `poorhttp.dispatch.answer.Answer`; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", subclass, frozen, immutable_type)]
#[derive(Default)]
pub struct HeldBody(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// `None` if nothing was written.
    bytes: Option<Vec<u8>>,
    limit: isize,
    room: isize,
    /// Some of it was written as bytes.
    is_raw: bool,
}

#[pymethods]
impl HeldBody {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyAny>, _kwargs: Option<&Bound<'_, PyAny>>) -> Self {
        Self::default()
    }

    /// Forget what was written, and make room for `limit` bytes.
    fn _hold(&self, limit: isize) {
        *lock(&self.0) = Held { limit, room: limit, ..Held::default() };
    }

    /// Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full.
    fn write(body: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = body.py();
        let (bytes, is_raw) = if let Ok(text) = data.cast::<PyString>() {
            (text.to_str()?.as_bytes(), false)
        } else if let Ok(bytes) = data.cast::<PyBytes>() {
            (bytes.as_bytes(), true)
        } else {
            return body.call_method1(intern!(py, "_refuse"), (data,)).map(drop);
        };
        let mut held = lock(&body.get().0);
        if held.room < 0 {
            drop(held);
            body.call_method0(intern!(py, "flush"))?;
            held = lock(&body.get().0);
        }
        held.bytes.get_or_insert_with(|| Vec::with_capacity(USUAL.max(bytes.len()))).extend_from_slice(bytes);
        held.is_raw |= is_raw;
        held.room = held.room.saturating_sub_unsigned(bytes.len());
        let is_full = held.room < 0;
        drop(held);
        if is_full {
            body.call_method0(intern!(py, "flush"))?;
        }
        Ok(())
    }

    /// Return what was written, and hold nothing any more.
    fn _take<'py>(body: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let py = body.py();
        let (bytes, is_raw) = {
            let mut held = lock(&body.get().0);
            held.room = held.limit;
            (held.bytes.take(), std::mem::take(&mut held.is_raw))
        };
        if is_raw {
            body.setattr(intern!(py, "_raw"), true)?;
        }
        Ok(PyBytes::new(py, bytes.as_deref().unwrap_or_default()))
    }

    /// Whether something was written, even if it was empty.
    fn _holds(&self) -> bool {
        lock(&self.0).bytes.is_some()
    }

    #[getter(_limit)]
    fn limit(&self) -> isize {
        lock(&self.0).limit
    }

    #[getter(_room)]
    fn room(&self) -> isize {
        lock(&self.0).room
    }

    #[setter(_room)]
    fn set_room(&self, room: isize) {
        lock(&self.0).room = room;
    }
}
