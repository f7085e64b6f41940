//! Appending to a log by its number, which stays its owner's: he reopens the log by `dup2` onto it.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, write};

/// A pipe that is ready takes so many bytes at once, so that a write never waits.
const PIECE: usize = 4096;
/// The moment that a log which takes nothing is waited for before it is asked whether to go on, in ns.
const STEP: i64 = 50_000_000;

/// Append `bytes`. A pipe that nobody reads takes nothing: then this waits for as long as `keeps_waiting` says so.
/// Returns how many bytes are written, or cannot ever be.
pub fn append(log: RawFd, bytes: &[u8], keeps_waiting: impl Fn() -> bool) -> usize {
    let mut count = 0;
    while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
        if !takes_more(log) {
            if keeps_waiting() {
                continue;
            }
            break;
        }
        match write(borrow(log), rest.get(..PIECE).unwrap_or(rest)) {
            Ok(written) => count += written,
            Err(Errno::INTR | Errno::AGAIN) => {}
            // A full disk must not stop the service; nobody could be told anyway.
            Err(_) => return bytes.len(),
        }
    }
    count
}

/// Whether it does within a moment. An error shows when it is written.
fn takes_more(log: RawFd) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: STEP };
    poll(&mut [PollFd::new(&borrow(log), PollFlags::OUT)], Some(&wait)).is_ok_and(|ready| ready > 0)
}

fn borrow<'a>(log: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number is only handed to poll and write, which tell where it is not open. It is borrowed each time
    // because its owner may reopen the log under the same number.
    unsafe { BorrowedFd::borrow_raw(log) }
}
