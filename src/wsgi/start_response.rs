//! Checks the status and the headers that an application gives to `start_response`, and writes them as a head (PEP
//! 3333, "The start_response() Callable").
//!
//! Knows Python's types; what a status and a field may hold is known by `http::response`.

use std::borrow::Cow;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyTupleMethods};

use super::text;
use crate::http::response::ResponseHead;

/// The most bytes of a text that a message repeats.
const SHOWN: usize = 200;

/// Write the head into `out`. `each` is called with the name of each field, and with whether the field was written.
/// Raises TypeError or ValueError; what `out` holds then is of no use.
pub fn write_head(
    out: &mut Vec<u8>,
    status: &Bound<'_, PyAny>,
    headers: &Bound<'_, PyAny>,
    mut each: impl FnMut(&[u8], bool),
) -> PyResult<ResponseHead> {
    let status = latin1("the status", status)?;
    let mut head = ResponseHead::begin(out, &status)
        .map_err(|fault| PyValueError::new_err(format!("{fault}: {:?}", shown(&status))))?;
    let headers = headers
        .cast::<PyList>()
        .map_err(|_| PyTypeError::new_err(format!("the headers are a list of tuples, not {}", type_name(headers))))?;
    for header in headers.iter() {
        let Some([name, value]) = header.cast::<PyTuple>().ok().map(PyTupleMethods::as_slice) else {
            let kind = type_name(&header);
            return Err(PyTypeError::new_err(format!("a header is a tuple (name, value), not {kind}")));
        };
        let (name, value) = (latin1("a header name", name)?, latin1("a header value", value)?);
        let is_written = head
            .field(out, &name, &value)
            .map_err(|fault| PyValueError::new_err(format!("{fault}: {:?}: {:?}", shown(&name), shown(&value))))?;
        each(&name, is_written);
    }
    Ok(head)
}

/// Check a status and headers as `start_response` does; see `_engine.pyi`.
#[pyfunction]
pub fn check_head(status: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    write_head(&mut Vec::new(), status, headers, |_, _| ()).map(|head| head.promised())
}

/// The name of the type of `object`, for a message.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

#[inline]
fn latin1<'a>(what: &str, object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    let text = object
        .cast::<PyString>()
        .map_err(|_| PyTypeError::new_err(format!("{what} is a str, not {}", type_name(object))))?;
    text::bytes(text).ok_or_else(|| {
        let text: String = text.to_string_lossy().chars().take(SHOWN).collect();
        PyValueError::new_err(format!("a character of {what} is not latin-1: {text:?}"))
    })
}

/// The beginning of a text, for a message. Not `repr()`: it may be code of the application that calls back here.
pub fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(SHOWN).map(|&byte| char::from(byte)).collect()
}
