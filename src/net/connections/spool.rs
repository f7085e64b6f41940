//! Request bodies: in memory up to `body_memory` bytes, beyond that in a temporary file without a name. The outbox puts
//! answers into such files, too.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::http::protocol::BodySink;
use crate::http::reject::Reject;
use crate::limits::Limits;
use crate::net::heap;

/// A request body.
#[derive(Debug)]
pub enum Body {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, with its length in bytes.
    File(File, u64),
}

impl Default for Body {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Body {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Go back to the beginning, for a reader.
    pub fn rewind(&mut self) -> std::io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file, _) => file.seek(SeekFrom::Start(0)).map(|_| ()),
        }
    }
}

impl BodySink for Body {
    fn write(&mut self, data: &[u8], rest: Option<u64>, limits: &Limits) -> Result<(), Reject> {
        if let Self::Memory(bytes) = self {
            if bytes.len() + data.len() <= limits.body_memory {
                let whole = rest.and_then(|rest| usize::try_from(rest).ok());
                let whole = whole.map(|rest| (bytes.len() + data.len()).saturating_add(rest).min(limits.body_memory));
                heap::grow(bytes, data.len(), whole);
                bytes.extend_from_slice(data);
                return Ok(());
            }
            let mut file = temporary_file().map_err(|error| no_storage(&error))?;
            file.write_all(bytes).map_err(|error| no_storage(&error))?;
            *self = Self::File(file, bytes.len() as u64);
        }
        if let Self::File(file, length) = self {
            file.write_all(data).map_err(|error| no_storage(&error))?;
            *length += data.len() as u64;
        }
        Ok(())
    }
}

fn no_storage(error: &std::io::Error) -> Reject {
    // The error of a device that takes no bytes has no number.
    Reject::no_storage(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
}

/// A file without a name, so that nothing is left behind however the process ends, in the first directory that takes one.
/// Where none does, the error is that of the first directory.
pub fn temporary_file() -> std::io::Result<File> {
    let mut fault = None;
    for directory in directories() {
        match file_in(&directory) {
            Ok(file) => return Ok(file),
            Err(error) => fault.get_or_insert(error),
        };
    }
    Err(fault.unwrap_or_else(|| std::io::ErrorKind::NotFound.into()))
}

/// Directories for temporary files, in the order of Python's `tempfile`.
fn directories() -> impl Iterator<Item = PathBuf> {
    let named = ["TMPDIR", "TEMP", "TMP"].into_iter().filter_map(std::env::var_os).filter(|name| !name.is_empty());
    named.map(PathBuf::from).chain(["/tmp", "/var/tmp", "/usr/tmp", "."].map(PathBuf::from))
}

fn file_in(directory: &Path) -> std::io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // Some file systems do not support O_TMPFILE.
        Err(_) => named_then_unlinked(directory, mode),
    }
}

fn named_then_unlinked(directory: &Path, mode: Mode) -> std::io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("poorhttp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = directory.join(name);
    let file = rustix::fs::open(&path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
    std::fs::remove_file(path)?;
    Ok(file.into())
}
