//! Appending to a log by its number, which stays its owner's: he reopens the log by `dup2` onto it.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// A pipe that is ready takes so many bytes at once.
const PIECE: usize = 4096;

/// Append what goes without waiting for anybody. Returns how many bytes are written, or cannot ever be.
pub fn append_now(log: RawFd, bytes: &[u8]) -> usize {
    let log = borrow(log);
    let mut count = 0;
    for piece in bytes.chunks(PIECE) {
        let ready = poll(&mut [PollFd::new(&log, PollFlags::OUT)], Some(&Timespec::default()));
        if !ready.is_ok_and(|ready| ready > 0) {
            break;
        }
        match write(log, piece) {
            Ok(written) if written == piece.len() => count += written,
            Ok(written) => return count + written,
            Err(Errno::INTR | Errno::AGAIN) => break,
            // A full disk must not stop the service; nobody could be told anyway.
            Err(_) => return bytes.len(),
        }
    }
    count
}

fn borrow<'a>(log: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number is only handed to poll and write, which tell where it is not open. It is borrowed each time
    // because its owner may reopen the log under the same number.
    unsafe { BorrowedFd::borrow_raw(log) }
}
