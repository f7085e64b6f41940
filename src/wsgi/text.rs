//! "Native strings" (PEP 3333, "A Note On String Types"): text whose characters are bytes, as in latin-1.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::types::string::PyStringData;

/// `bytes` as a Python string, one character a byte.
pub fn native<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    // A slice is never longer than isize::MAX.
    let length = ffi::Py_ssize_t::try_from(bytes.len()).unwrap_or(0);
    // SAFETY: pointer and length are those of a slice. Every byte is a character of latin-1, so that this can fail for
    // want of memory only, which `from_owned_ptr` turns into a panic. The result is a str.
    unsafe {
        let text = ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), length, std::ptr::null());
        Bound::from_owned_ptr(py, text).cast_into_unchecked()
    }
}

/// The bytes of a native string; none if a character is no byte.
pub fn bytes<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    // SAFETY: reads the string as the headers of this very interpreter lay it out; a str never changes.
    match unsafe { text.data() } {
        Ok(PyStringData::Ucs1(bytes)) => Some(bytes),
        _ => None,
    }
}
