//! `wsgi.file_wrapper` (PEP 3333, "Optional Platform-Specific File Handling"): iterated, or sent by the kernel.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use pyo3::exceptions::{PyAttributeError, PyException};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::net::connections::outbox::FileRange;
use crate::net::events::listener::duplicate;

/// What is no larger is read at once.
const SMALL: u64 = 65536;

/// Wraps a file-like object: anything with `read(size)`, perhaps with `close()`.
#[pyclass(module = "poorhttp._engine", immutable_type)]
pub struct FileWrapper {
    filelike: Py<PyAny>,
    block_size: usize,
}

#[pymethods]
impl FileWrapper {
    /// A file may refer to its wrapper; what it is made of clears itself.
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
        let block = self.filelike.bind(py).call_method1("read", (self.block_size,))?;
        Ok(if block.len()? == 0 { None } else { Some(block) })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.filelike.bind(py).call_method0("close") {
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

impl FileWrapper {
    /// The rest of the file from where it stands, if it is a regular file that has a descriptor.
    /// One that fails to tell is read instead, as is a small one that takes no room on a disk: it may be made as it is read
    /// (/proc, /sys), and its size says nothing. What is no Exception (a timeout, the end of the process) is raised.
    pub fn range(&self, py: Python<'_>) -> PyResult<Option<FileRange>> {
        match numbers(self.filelike.bind(py)) {
            Ok(numbers) => Ok(numbers.and_then(|(descriptor, offset)| rest_of(descriptor, offset))),
            Err(error) if error.is_instance_of::<PyException>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The descriptor of a file, and where in it the next byte is.
fn numbers(filelike: &Bound<'_, PyAny>) -> PyResult<Option<(i32, u64)>> {
    if !is_plain(filelike)? {
        return Ok(None);
    }
    // A BufferedRandom may hold what was written and is not in the file yet.
    filelike.call_method0("flush")?;
    Ok(Some((filelike.call_method0("fileno")?.extract()?, filelike.call_method0("tell")?.extract()?)))
}

fn rest_of(descriptor: i32, offset: u64) -> Option<FileRange> {
    let file = File::from(duplicate(descriptor).ok()?);
    let facts = file.metadata().ok().filter(|facts| facts.is_file() && (facts.blocks() > 0 || facts.len() > SMALL))?;
    Some(FileRange { file, offset, left: facts.len().saturating_sub(offset), is_short: false })
}

/// Whether what `read` gives is what the file holds: not so for text, or for a file that is decompressed.
fn is_plain(filelike: &Bound<'_, PyAny>) -> PyResult<bool> {
    let io = filelike.py().import("io")?;
    let raw = if filelike.get_type().is(&io.getattr("FileIO")?) {
        filelike.clone()
    } else if filelike.get_type().is(&io.getattr("BufferedReader")?)
        || filelike.get_type().is(&io.getattr("BufferedRandom")?)
    {
        filelike.getattr("raw")?
    } else {
        return Ok(false);
    };
    Ok(raw.get_type().is(&io.getattr("FileIO")?) && raw.call_method0("readable")?.is_truthy()?)
}
