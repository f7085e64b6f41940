//! Keys and values of the cache between Python and bytes: bytes, str and small ints are kept as they are.
//!
//! Knows types of Python. What is of another type is packed by the subclass of `CacheTable`, in Python.

use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use pyo3::{IntoPyObjectExt, intern};

use crate::cache::record::{BYTES, INTEGER};

/// A kind of value: text in UTF-8.
const TEXT: u8 = 1;
/// Bytes of a key at most.
const LONGEST_KEY: usize = 1024;

/// A value as it is kept.
pub enum Form<'py> {
    Bytes(Bound<'py, PyBytes>),
    Text(Bound<'py, PyString>),
    Integer([u8; 8]),
    Packed(u8, Bound<'py, PyBytes>),
}

/// A value that was found.
pub enum Found<'py> {
    Plain(Bound<'py, PyAny>),
    Packed(u8, Bound<'py, PyBytes>),
}

impl<'py> Form<'py> {
    /// The value as it is kept. What is neither bytes, str nor a small int itself is packed by the subclass.
    pub fn new(cache: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            return Ok(Self::Bytes(bytes.clone()));
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            return Ok(Self::Text(text.clone()));
        }
        if let Some(number) = value.cast_exact::<PyInt>().ok().and_then(|number| number.extract::<i64>().ok()) {
            return Ok(Self::Integer(number.to_ne_bytes()));
        }
        let (kind, bytes) = cache.call_method1(intern!(cache.py(), "_pack"), (value,))?.extract()?;
        Ok(Self::Packed(kind, bytes))
    }

    /// The kind and the bytes.
    pub fn parts(&self) -> PyResult<(u8, &[u8])> {
        Ok(match self {
            Self::Bytes(bytes) => (BYTES, bytes.as_bytes()),
            Self::Text(text) => (TEXT, text.to_str()?.as_bytes()),
            Self::Integer(bytes) => (INTEGER, bytes),
            Self::Packed(kind, bytes) => (*kind, bytes.as_bytes()),
        })
    }
}

impl<'py> Found<'py> {
    /// The value of these bytes.
    pub fn new(kind: u8, copy: Copied<'py>) -> PyResult<Self> {
        let bytes = match copy {
            Copied::Ascii(text) => return Ok(Self::Plain(text.into_any())),
            Copied::Bytes(bytes) => bytes,
        };
        let py = bytes.py();
        Ok(match kind {
            BYTES => Self::Plain(bytes.into_any()),
            TEXT => Self::Plain(PyString::from_bytes(py, bytes.as_bytes())?.into_any()),
            INTEGER => {
                let bytes =
                    bytes.as_bytes().try_into().map_err(|_| PyRuntimeError::new_err("a number has not 64 bits"))?;
                Self::Plain(i64::from_ne_bytes(bytes).into_bound_py_any(py)?)
            }
            kind => Self::Packed(kind, bytes),
        })
    }
}

/// A value as it was copied from where others may change it: its bytes, or for speed the text of which they are.
pub enum Copied<'py> {
    Ascii(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
}

impl<'py> Copied<'py> {
    pub fn new(py: Python<'py>, kind: u8, bytes: &[u8]) -> Self {
        // Python has such text as the same bytes. Other text would have to be encoded again to be judged.
        let text = if kind == TEXT && bytes.is_ascii() { PyString::from_bytes(py, bytes).ok() } else { None };
        text.map_or_else(|| Self::Bytes(PyBytes::new(py, bytes)), Self::Ascii)
    }
}

impl AsRef<[u8]> for Copied<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Ascii(text) => text.to_str().map_or(&[], str::as_bytes),
            Self::Bytes(bytes) => bytes.as_bytes(),
        }
    }
}

/// When something is over that is to last so many seconds; 0 for never, and the past where it is none.
pub fn end_of(timeout: Option<f64>, now: u64) -> PyResult<u64> {
    match timeout {
        None => Ok(0),
        Some(seconds) if seconds.is_nan() => Err(PyValueError::new_err("a timeout is nan; expected seconds, or None")),
        Some(seconds) if seconds <= 0.0 => Ok(1),
        Some(seconds) => {
            let life = Duration::try_from_secs_f64(seconds).ok();
            Ok(life.and_then(|life| u64::try_from(life.as_nanos()).ok()?.checked_add(now)).unwrap_or(0))
        }
    }
}

/// The bytes of a key.
pub fn key_of<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    let bytes = if let Ok(text) = key.cast::<PyString>() {
        text.to_str()?.as_bytes()
    } else if let Ok(bytes) = key.cast::<PyBytes>() {
        bytes.as_bytes()
    } else {
        return Err(PyTypeError::new_err(format!("a key is of {:?}; expected str or bytes", key.get_type())));
    };
    if bytes.len() > LONGEST_KEY {
        let told = format!("a key has {} bytes; expected at most {LONGEST_KEY}", bytes.len());
        return Err(PyValueError::new_err(told + ": use a hash of it, such as sha256(key).hexdigest()"));
    }
    Ok(bytes)
}
