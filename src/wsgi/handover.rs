//! Handing a file over to the front server (X-Sendfile, X-Accel-Redirect): its name in a field, instead of its bytes.
//!
//! Knows how the name is written. Whether a file may be handed over is asked of the kernel, not of what the application
//! calls it: the name must lead to the very file that is open.

use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::net::connections::outbox::FileRange;

/// How the front server is told.
#[derive(Debug)]
pub struct Handover {
    field: Vec<u8>,
    prefix: Vec<u8>,
}

impl Handover {
    /// By the setting `sendfile_header`: the name of a field and, behind a space, what stands before each name; none
    /// where it is empty.
    pub fn new(setting: &str) -> Option<Self> {
        let (field, prefix) = setting.split_once(' ').unwrap_or((setting, ""));
        (!field.is_empty()).then(|| Self { field: field.as_bytes().to_vec(), prefix: prefix.as_bytes().to_vec() })
    }

    /// The field that hands the whole of an open file over; none where only a part is to be sent, or the file has no
    /// name any more.
    pub fn line(&self, range: &FileRange) -> Option<Vec<u8>> {
        let name = whole_file(range)?;
        let mut line = [&self.field, b": ".as_slice(), &self.prefix].concat();
        for &byte in name.as_os_str().as_bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
                line.push(byte);
            } else {
                // Both lighttpd and nginx decode it. Writing into memory cannot fail.
                let _ = std::io::Write::write_fmt(&mut line, format_args!("%{byte:02X}"));
            }
        }
        line.extend_from_slice(b"\r\n");
        Some(line)
    }
}

/// Its absolute name.
fn whole_file(range: &FileRange) -> Option<PathBuf> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", range.file.as_raw_fd())).ok()?;
    let (open, named) = (range.file.metadata().ok()?, std::fs::symlink_metadata(&name).ok()?);
    let is_same = (open.dev(), open.ino()) == (named.dev(), named.ino());
    (is_same && range.offset == 0 && range.left == open.len()).then_some(name)
}
