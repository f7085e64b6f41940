//! `wsgi.input` (PEP 3333, "Input and Error Streams"): a byte stream that ends where the body ends.
//!
//! A body in memory is a [`MemoryInput`], which reads from where the body was received; a body in a temporary file is a
//! `BufferedReader`. All requests without a body share one empty stream.

use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PySlice, PyTuple};

use crate::net::connections::spool::Body;

/// Bytes that the reader of a file asks the kernel for, where the application asks for fewer.
const BUFFER: usize = 64 * 1024;

/// Makes streams of bodies.
pub struct Inputs {
    empty: Py<MemoryInput>,
    open: Py<PyAny>,
}

impl Inputs {
    /// Imports what makes streams.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let io = py.import("io")?;
        // Libraries ask so whether a stream gives bytes or text.
        io.getattr("BufferedIOBase")?.call_method1("register", (py.get_type::<MemoryInput>(),))?;
        Ok(Self { empty: Py::new(py, MemoryInput::of(Vec::new()))?, open: io.getattr("open")?.unbind() })
    }

    /// The stream of every request without a body.
    pub fn empty<'py>(&self, py: Python<'py>) -> &Bound<'py, MemoryInput> {
        self.empty.bind(py)
    }

    /// The stream of `body`.
    pub fn of<'py>(&self, py: Python<'py>, mut body: Body) -> PyResult<Bound<'py, PyAny>> {
        body.rewind()?;
        match body {
            Body::Memory(bytes) => Bound::new(py, MemoryInput::of(bytes)).map(Bound::into_any),
            Body::File(file, _) => self.open.bind(py).call1((file.into_raw_fd(), "rb", BUFFER)),
        }
    }
}

/// A stream of bytes in memory, with the methods of a `BytesIO` for reading. A stream without bytes has no state, so that
/// nothing passes from one request to another.
///
/// The lock of the interpreter, which no method lets go between its first look at the state and its last, keeps threads
/// apart.
#[pyclass(module = "poorhttp._engine", frozen, immutable_type, weakref)]
pub struct MemoryInput {
    bytes: Vec<u8>,
    /// Position of the next byte; after `seek` perhaps beyond the end.
    at: AtomicUsize,
    is_closed: AtomicBool,
}

impl MemoryInput {
    fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, at: AtomicUsize::new(0), is_closed: AtomicBool::new(false) }
    }

    fn check_open(&self) -> PyResult<()> {
        if self.closed() { Err(PyValueError::new_err("I/O operation on closed file.")) } else { Ok(()) }
    }

    /// The bytes that were not read, at most `size` of them if that is a number of bytes.
    fn rest(&self, size: Option<isize>) -> PyResult<&[u8]> {
        self.check_open()?;
        let rest = self.bytes.get(self.at.load(Ordering::Relaxed)..).unwrap_or_default();
        let most = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        Ok(rest.get(..most).unwrap_or(rest))
    }

    /// The bytes at the beginning of the rest are read.
    fn pass(&self, count: usize) {
        if count > 0 {
            self.at.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The next line, which is empty at the end.
    fn line(&self, size: Option<isize>) -> PyResult<&[u8]> {
        let rest = self.rest(size)?;
        let line = memchr::memchr(b'\n', rest).and_then(|end| rest.get(..=end)).unwrap_or(rest);
        self.pass(line.len());
        Ok(line)
    }
}

#[pymethods]
#[allow(clippy::unused_self, clippy::needless_pass_by_value)] // Their form is that of any stream.
impl MemoryInput {
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.rest(size)?;
        self.pass(bytes.len());
        Ok(PyBytes::new(py, bytes))
    }

    #[pyo3(signature = (size = None, /))]
    fn read1<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py, size)
    }

    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        self.line(size).map(|line| PyBytes::new(py, line))
    }

    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(&self, py: Python<'py>, hint: Option<isize>) -> PyResult<Bound<'py, PyList>> {
        let lines = PyList::empty(py);
        let mut left = hint.filter(|&hint| hint > 0).unwrap_or(isize::MAX);
        while left > 0 {
            let line = self.line(None)?;
            if line.is_empty() {
                break;
            }
            left = left.saturating_sub_unsigned(line.len());
            lines.append(PyBytes::new(py, line))?;
        }
        Ok(lines)
    }

    #[pyo3(signature = (buffer, /))]
    fn readinto(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = buffer.py();
        // Its items may be larger than bytes.
        let view = PyMemoryView::from(buffer)?.call_method1("cast", ("B",))?;
        let bytes = self.rest(Some(view.len()?.try_into()?))?;
        view.set_item(PySlice::new(py, 0, bytes.len().try_into()?, 1), PyBytes::new(py, bytes))?;
        self.pass(bytes.len());
        Ok(bytes.len())
    }

    #[pyo3(signature = (buffer, /))]
    fn readinto1(&self, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.readinto(buffer)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.line(None)?;
        Ok(if line.is_empty() { None } else { Some(PyBytes::new(py, line)) })
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().check_open()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    #[pyo3(signature = (offset, whence = 0, /))]
    fn seek(&self, offset: isize, whence: i32) -> PyResult<usize> {
        self.check_open()?;
        let from = match whence {
            0 if offset < 0 => return Err(PyValueError::new_err(format!("negative seek value {offset}"))),
            0 => 0,
            1 => self.at.load(Ordering::Relaxed),
            2 => self.bytes.len(),
            _ => return Err(PyValueError::new_err(format!("invalid whence ({whence}, should be 0, 1 or 2)"))),
        };
        let at = if self.bytes.is_empty() { 0 } else { from.saturating_add_signed(offset) };
        self.at.store(at, Ordering::Relaxed);
        Ok(at)
    }

    fn tell(&self) -> PyResult<usize> {
        self.check_open()?;
        Ok(self.at.load(Ordering::Relaxed))
    }

    fn readable(&self) -> PyResult<bool> {
        self.check_open()?;
        Ok(true)
    }

    fn seekable(&self) -> PyResult<bool> {
        self.readable()
    }

    fn writable(&self) -> PyResult<bool> {
        self.check_open()?;
        Ok(false)
    }

    fn isatty(&self) -> PyResult<bool> {
        self.writable()
    }

    fn flush(&self) -> PyResult<()> {
        self.check_open()
    }

    fn close(&self) {
        self.is_closed.store(!self.bytes.is_empty(), Ordering::Relaxed);
    }

    #[getter]
    fn closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}
