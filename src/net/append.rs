//! Appending to a log by its number, which stays its owner's: he reopens the log by `dup2` onto it.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// A pipe that is ready takes so many bytes at once.
const PIECE: usize = 4096;

/// How appending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// All is written, or cannot ever be.
    Done,
    /// A signal came while the log, a pipe that nobody reads, took nothing; so many bytes are written.
    Interrupted(usize),
}

/// Append all, waiting for a log that takes nothing.
pub fn append(log: RawFd, bytes: &[u8]) -> Appended {
    let mut count = 0;
    while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
        match write(borrow(log), rest) {
            Ok(written) => {
                count += written;
                // Interrupted as well, in the middle.
                if written < rest.len() && !takes_more(log, Duration::ZERO) {
                    return Appended::Interrupted(count);
                }
            }
            Err(Errno::INTR) => return Appended::Interrupted(count),
            // A full disk must not stop the service; nobody could be told anyway.
            Err(_) => break,
        }
    }
    Appended::Done
}

/// Append what goes without waiting for anybody longer than `patience`. Returns how many bytes are written, or cannot
/// ever be.
pub fn append_now(log: RawFd, bytes: &[u8], patience: Duration) -> usize {
    let mut count = 0;
    for piece in bytes.chunks(PIECE) {
        if !takes_more(log, patience) {
            break;
        }
        match write(borrow(log), piece) {
            Ok(written) if written == piece.len() => count += written,
            Ok(written) => return count + written,
            Err(Errno::INTR | Errno::AGAIN) => break,
            Err(_) => return bytes.len(),
        }
    }
    count
}

fn takes_more(log: RawFd, patience: Duration) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    poll(&mut [PollFd::new(&borrow(log), PollFlags::OUT)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

fn borrow<'a>(log: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number is only handed to poll and write, which tell where it is not open. It is borrowed each time
    // because its owner may reopen the log under the same number.
    unsafe { BorrowedFd::borrow_raw(log) }
}
