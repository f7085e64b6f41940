//! Request bodies: in memory up to `body_memory`, then in a temporary file that has no name, as answers use it too.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use rustix::fs::{Mode, OFlags};

use super::heap;
use crate::http::protocol::BodySink;
use crate::http::reject::Reject;
use crate::limits::Limits;

/// A request body.
#[derive(Debug)]
pub enum Body {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, of this many bytes.
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Make it ready to be read from its beginning.
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
            let mut file = temporary_file().map_err(|_| Reject::NO_STORAGE)?;
            file.write_all(bytes).map_err(|_| Reject::NO_STORAGE)?;
            *self = Self::File(file, bytes.len() as u64);
        }
        if let Self::File(file, length) = self {
            file.write_all(data).map_err(|_| Reject::NO_STORAGE)?;
            *length += data.len() as u64;
        }
        Ok(())
    }
}

/// A file in `$TMPDIR` or /tmp that no name leads to, so that nothing is left behind whatever happens.
pub fn temporary_file() -> std::io::Result<File> {
    let directory = std::env::temp_dir();
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(&directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, mode) {
        Ok(file) => Ok(file.into()),
        // Some file systems know no O_TMPFILE.
        Err(_) => named_then_unlinked(&directory, mode),
    }
}

fn named_then_unlinked(directory: &std::path::Path, mode: Mode) -> std::io::Result<File> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("poorhttp-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = directory.join(name);
    let file = rustix::fs::open(&path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
    std::fs::remove_file(path)?;
    Ok(file.into())
}
