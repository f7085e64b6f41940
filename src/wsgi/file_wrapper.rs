//! `wsgi.file_wrapper` (PEP 3333, "Optional Platform-Specific File Handling"): a file that the kernel sends if it can,
//! and that is read in blocks otherwise.
//!
//! Knows which files the kernel can send. Does not send them.

use std::fs::File;

use pyo3::exceptions::{PyAttributeError, PyException};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::fs::fstat;

use super::open_file::is_regular;
use crate::net::connections::outbox::FileRange;
use crate::net::events::listener::duplicate;

/// Files up to this size may be read at once.
const SMALL: u64 = 65536;

/// Wraps a file-like object: anything with `read(size)`, perhaps with `close()`.
#[pyclass(module = "poorhttp._engine", immutable_type)]
pub struct FileWrapper {
    filelike: Py<PyAny>,
    block_size: usize,
}

#[pymethods]
impl FileWrapper {
    /// A file may refer to its wrapper, which makes a circle; the file breaks it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.filelike)
    }

    #[new]
    #[pyo3(signature = (filelike, block_size = 65536))]
    fn new(filelike: Py<PyAny>, block_size: usize) -> Self {
        Self { filelike, block_size }
    }

    fn __iter__(wrapper: Bound<'_, Self>) -> Bound<'_, Self> {
        wrapper
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let block = self.filelike.bind(py).call_method1(intern!(py, "read"), (self.block_size,))?;
        Ok(if block.len()? == 0 { None } else { Some(block) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.filelike.bind(py).call_method0(intern!(py, "close")) {
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl FileWrapper {
    /// The rest of the file, from its position on. Returns `None` if it must be read: it is no regular file with a
    /// descriptor, its methods raise an Exception, or it is small and has no blocks on a disk, which may mean that its
    /// content is made while it is read and that its size says nothing (/proc, /sys). Other exceptions, such as
    /// RequestTimeout, are raised.
    pub fn range(&self, py: Python<'_>, classes: &FileClasses) -> PyResult<Option<FileRange>> {
        match classes.numbers(self.filelike.bind(py)) {
            Ok(numbers) => Ok(numbers.and_then(|(descriptor, offset)| rest_of(descriptor, offset))),
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The classes of files whose `read` gives the bytes of the file: not so for text, or for a file that is decompressed.
/// They are imported once.
pub struct FileClasses(PyOnceLock<Classes>);

struct Classes {
    file_io: Py<PyAny>,
    buffered_reader: Py<PyAny>,
    buffered_random: Py<PyAny>,
}

impl Default for FileClasses {
    fn default() -> Self {
        Self(PyOnceLock::new())
    }
}

impl FileClasses {
    fn get(&self, py: Python<'_>) -> PyResult<&Classes> {
        self.0.get_or_try_init(py, || {
            let io = py.import("io")?;
            let class = |name| io.getattr(name).map(Bound::unbind);
            Ok(Classes {
                file_io: class("FileIO")?,
                buffered_reader: class("BufferedReader")?,
                buffered_random: class("BufferedRandom")?,
            })
        })
    }

    /// The descriptor of a file of such a class, and the position of its next byte.
    fn numbers(&self, filelike: &Bound<'_, PyAny>) -> PyResult<Option<(i32, u64)>> {
        let (py, class) = (filelike.py(), filelike.get_type());
        let Classes { file_io, buffered_reader, buffered_random } = self.get(py)?;
        let raw = if class.is(buffered_reader) {
            filelike.getattr(intern!(py, "raw"))?
        } else if class.is(buffered_random) {
            // It may hold bytes that are not in the file yet.
            filelike.call_method0(intern!(py, "flush"))?;
            filelike.getattr(intern!(py, "raw"))?
        } else if class.is(file_io) && filelike.call_method0(intern!(py, "readable"))?.is_truthy()? {
            filelike.clone()
        } else {
            return Ok(None);
        };
        if !raw.get_type().is(file_io) {
            return Ok(None);
        }
        let descriptor = raw.call_method0(intern!(py, "fileno"))?.extract()?;
        Ok(Some((descriptor, filelike.call_method0(intern!(py, "tell"))?.extract()?)))
    }
}

fn rest_of(descriptor: i32, offset: u64) -> Option<FileRange> {
    let file = File::from(duplicate(descriptor).ok()?);
    let facts = fstat(&file).ok().filter(is_regular)?;
    let size = u64::try_from(facts.st_size).unwrap_or(0);
    let is_on_disk = facts.st_blocks > 0 || size > SMALL;
    is_on_disk.then(|| FileRange { file, offset, left: size.saturating_sub(offset), is_short: false })
}
