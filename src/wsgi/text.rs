//! Native strings (PEP 3333, "A Note On String Types"): a `str` in which each character stands for one byte (latin-1).

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::PyString;

/// `bytes` as a native string.
pub fn native<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => PyString::new(py, text),
        _ => PyString::new(py, &bytes.iter().map(|&byte| char::from(byte)).collect::<String>()),
    }
}

/// The bytes of a native string; `None` if a character of it is above U+00FF.
#[inline]
pub fn bytes<'a>(text: &'a Bound<'_, PyString>) -> Option<Cow<'a, [u8]>> {
    let (length, text) = (text.code_point_len().ok()?, text.to_str().ok()?);
    // UTF-8 with as many bytes as characters is ASCII.
    if text.len() == length {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    text.chars().map(|character| u8::try_from(character).ok()).collect::<Option<Vec<u8>>>().map(Cow::Owned)
}
