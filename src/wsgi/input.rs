//! `wsgi.input` (PEP 3333, "Input and Error Streams"): a byte stream that ends where the body ends.
//!
//! A body in memory is a `BytesIO`, a body in a temporary file a `BufferedReader`. All requests without a body share
//! one [`EmptyInput`], which has no state that could pass from one request to another.

use std::os::fd::IntoRawFd;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::net::connections::spool::Body;

/// Makes streams of bodies.
pub struct Inputs {
    empty: Py<EmptyInput>,
    bytes_io: Py<PyAny>,
    open: Py<PyAny>,
}

impl Inputs {
    /// Imports what makes streams.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let io = py.import("io")?;
        Ok(Self {
            empty: Py::new(py, EmptyInput)?,
            bytes_io: io.getattr("BytesIO")?.unbind(),
            open: io.getattr("open")?.unbind(),
        })
    }

    /// The stream of every request without a body.
    pub fn empty<'py>(&self, py: Python<'py>) -> &Bound<'py, EmptyInput> {
        self.empty.bind(py)
    }

    /// The stream of `body`.
    pub fn of<'py>(&self, py: Python<'py>, mut body: Body) -> PyResult<Bound<'py, PyAny>> {
        body.rewind()?;
        match body {
            Body::Memory(bytes) => self.bytes_io.bind(py).call1((PyBytes::new(py, &bytes),)),
            Body::File(file, _) => self.open.bind(py).call1((file.into_raw_fd(), "rb")),
        }
    }
}

/// A stream without bytes. It has the methods of a `BytesIO` for reading, and no state.
#[pyclass(module = "poorhttp._engine", frozen, immutable_type, weakref)]
pub struct EmptyInput;

#[pymethods]
#[allow(clippy::unused_self, clippy::needless_pass_by_value)] // Their form is that of any stream.
impl EmptyInput {
    #[pyo3(signature = (_size = None, /))]
    fn read<'py>(&self, py: Python<'py>, _size: Option<isize>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, b"")
    }

    #[pyo3(signature = (_size = None, /))]
    fn read1<'py>(&self, py: Python<'py>, _size: Option<isize>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, b"")
    }

    #[pyo3(signature = (_size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, _size: Option<isize>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, b"")
    }

    #[pyo3(signature = (_hint = None, /))]
    fn readlines<'py>(&self, py: Python<'py>, _hint: Option<isize>) -> Bound<'py, PyList> {
        PyList::empty(py)
    }

    #[pyo3(signature = (buffer, /))]
    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        if PyUntypedBuffer::get(buffer)?.readonly() {
            return Err(PyTypeError::new_err("readinto() needs a buffer that can be written"));
        }
        Ok(0)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {}

    #[pyo3(signature = (_offset, _whence = 0, /))]
    fn seek(&self, _offset: i64, _whence: i32) -> u64 {
        0
    }

    fn tell(&self) -> u64 {
        0
    }

    fn readable(&self) -> bool {
        true
    }

    fn seekable(&self) -> bool {
        true
    }

    fn writable(&self) -> bool {
        false
    }

    fn flush(&self) {}

    fn close(&self) {}

    #[getter]
    fn closed(&self) -> bool {
        false
    }
}
