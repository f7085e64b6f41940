//! The field by which the proxy in front sends a file itself (X-Sendfile, X-Accel-Redirect): a name in place of the
//! bytes.
//!
//! Knows how the name is written. Whether a file has that name is asked of the kernel, not of the application: the name
//! must lead to the very file that is open.

use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::net::connections::outbox::FileRange;

/// The setting `sendfile_header`.
#[derive(Debug)]
pub struct SendfileHeader {
    field: Vec<u8>,
    prefix: Vec<u8>,
}

impl SendfileHeader {
    /// `setting`: the name of a field and, after a space, a prefix for each file name. Returns `None` if it is empty.
    pub fn new(setting: &str) -> Option<Self> {
        let (field, prefix) = setting.split_once(' ').unwrap_or((setting, ""));
        (!field.is_empty()).then(|| Self { field: field.as_bytes().to_vec(), prefix: prefix.as_bytes().to_vec() })
    }

    /// The field line for `range`. Returns `None` if `range` is not a whole file, or if the file has no name any more.
    pub fn line(&self, range: &FileRange) -> Option<Vec<u8>> {
        let name = name_of_whole(range)?;
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

/// The absolute name of the file of which `range` is the whole.
fn name_of_whole(range: &FileRange) -> Option<PathBuf> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", range.file.as_raw_fd())).ok()?;
    let (open, named) = (range.file.metadata().ok()?, std::fs::symlink_metadata(&name).ok()?);
    let is_same = (open.dev(), open.ino()) == (named.dev(), named.ino());
    (is_same && range.offset == 0 && range.left == open.len()).then_some(name)
}
