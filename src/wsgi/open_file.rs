//! A file that the dispatch table sends: opened without following links, known by its facts, and then a body.
//!
//! Knows files. `poorhttp.dispatch.contained` decides which paths are opened, and has the same class in Python for other
//! servers. It is here too because that one costs four system calls more (the directories on the way, `fstat` again,
//! `lseek`), and some ten calls of Python for each file.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

use crate::net::connections::outbox::FileRange;

/// Bytes that are read at a time where the kernel does not send the file.
const BLOCK: usize = 65536;

/// See `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", immutable_type)]
pub struct OpenFile {
    /// `None` once it is taken or closed.
    file: Option<File>,
    path: Vec<u8>,
    resolve: ResolveFlags,
    facts: Stat,
}

#[pymethods]
impl OpenFile {
    /// Open the file at an absolute path. Raises OSError; ValueError for a NUL.
    #[new]
    fn new(py: Python<'_>, path: &[u8], follows_links: bool) -> PyResult<Self> {
        let resolve = if follows_links { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        if path.contains(&0) {
            return Err(PyValueError::new_err("a path has no NUL"));
        }
        let (file, facts) = py.detach(|| open(path, resolve)).map_err(os_error)?;
        Ok(Self { file: Some(file), path: path.to_vec(), resolve, facts })
    }

    #[getter]
    fn mode(&self) -> u32 {
        self.facts.st_mode
    }

    #[getter]
    fn file_size(&self) -> i64 {
        self.facts.st_size
    }

    #[getter]
    fn modified_ns(&self) -> i128 {
        i128::from(self.facts.st_mtime) * 1_000_000_000 + i128::from(self.facts.st_mtime_nsec)
    }

    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.path)
    }

    /// Become the regular file whose name has this suffix, if there is one that is not older.
    fn replace_by(&mut self, py: Python<'_>, suffix: &[u8]) -> bool {
        let path = [&self.path, suffix].concat();
        let resolve = self.resolve;
        let Ok((file, facts)) = py.detach(|| open(&path, resolve)) else { return false };
        let time = |it: &Stat| (it.st_mtime, it.st_mtime_nsec);
        if !is_regular(&facts) || time(&facts) < time(&self.facts) {
            return false;
        }
        (self.file, self.facts) = (Some(file), facts);
        true
    }

    /// The descriptor, which the caller closes; -1 if it was taken already.
    fn take(&mut self) -> RawFd {
        self.file.take().map_or(-1, IntoRawFd::into_raw_fd)
    }

    /// The bytes of the file from `first` to before `end`, as a body, which closes the file from now on.
    fn body(&mut self, first: u64, end: u64) -> FileBody {
        FileBody { file: self.file.take(), offset: first, left: end.saturating_sub(first), to_end: false }
    }

    fn close(&mut self) {
        self.file = None;
    }
}

/// A part of a file as the body of an answer; see `_engine.pyi` for its manual.
#[pyclass(module = "poorhttp._engine", immutable_type)]
pub struct FileBody {
    file: Option<File>,
    offset: u64,
    left: u64,
    #[pyo3(get, set)]
    to_end: bool,
}

#[pymethods]
impl FileBody {
    #[getter]
    fn size(&self) -> u64 {
        self.left
    }

    #[setter]
    fn set_size(&mut self, size: u64) {
        self.left = size;
    }

    /// As of a body whose validators were set by who made it.
    #[classattr]
    fn modified() -> Option<i64> {
        None
    }

    /// The body itself: the engine knows it.
    fn wrapped<'py>(body: Bound<'py, Self>, _file_wrapper: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        body
    }

    fn __iter__(body: Bound<'_, Self>) -> Bound<'_, Self> {
        body
    }

    /// The next block, where something else than the engine reads the body.
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(file) = &self.file else { return Ok(None) };
        let mut block = vec![0; usize::try_from(self.left).unwrap_or(BLOCK).min(BLOCK)];
        let read = py.detach(|| file.read_at(&mut block, self.offset))?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(block.get(..read).filter(|bytes| !bytes.is_empty()).map(|bytes| PyBytes::new(py, bytes)))
    }

    fn close(&mut self) {
        self.file = None;
    }
}

impl FileBody {
    /// The file, for the kernel to send. Returns `None` if it is closed.
    pub fn take_range(&mut self) -> Option<FileRange> {
        Some(FileRange { file: self.file.take()?, offset: self.offset, left: self.left, is_short: false })
    }
}

/// `NONBLOCK`: to open a pipe that nobody writes to would wait for ever.
fn open(path: &[u8], resolve: ResolveFlags) -> rustix::io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat2(CWD, OsStr::from_bytes(path), flags, Mode::empty(), resolve)?);
    let facts = fstat(&file)?;
    Ok((file, facts))
}

/// Whether these are the facts of a regular file.
pub fn is_regular(facts: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(facts.st_mode).is_file()
}

fn os_error(error: Errno) -> PyErr {
    let told = std::io::Error::from(error).to_string();
    PyOSError::new_err((error.raw_os_error(), told))
}
