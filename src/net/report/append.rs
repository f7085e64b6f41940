//! Appending to a log by the number of its descriptor, onto which its owner reopens the log by `dup2`.

use std::os::fd::{BorrowedFd, RawFd};

use memchr::memrchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, write};

/// `PIPE_BUF`: a pipe that is ready takes so many bytes whole and without waiting, so that the lines of other writers stay
/// apart.
const PIECE: usize = 4096;
/// How long a log that takes nothing is waited for before the caller is asked again, in ns.
const STEP: i64 = 50_000_000;

/// Append `bytes`, which are lines. A pipe that no program reads takes nothing: then this waits for as long as
/// `keeps_waiting` says so. Returns how many bytes are written, and why no more of them ever can be, if so.
pub fn append(log: RawFd, bytes: &[u8], keeps_waiting: impl Fn() -> bool) -> (usize, Option<Errno>) {
    let is_file = fstat(borrow(log)).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_file());
    let mut count = 0;
    while let Some(rest) = bytes.get(count..).filter(|rest| !rest.is_empty()) {
        if !takes_more(log) {
            if keeps_waiting() {
                continue;
            }
            break;
        }
        match write(borrow(log), if is_file { rest } else { piece(rest) }) {
            Ok(written) => count += written,
            Err(Errno::INTR | Errno::AGAIN) => {}
            // A full disk must not stop the service.
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}

/// As many whole lines as a pipe takes at once; a part of a line that is longer.
fn piece(rest: &[u8]) -> &[u8] {
    let Some(most) = rest.get(..PIECE) else { return rest };
    let end = memrchr(b'\n', most).map_or(most.len(), |end| end + 1);
    rest.get(..end).unwrap_or(rest)
}

/// Whether the log takes more within a moment. An error counts as that: the write will show it.
fn takes_more(log: RawFd) -> bool {
    let wait = Timespec { tv_sec: 0, tv_nsec: STEP };
    poll(&mut [PollFd::new(&borrow(log), PollFlags::OUT)], Some(&wait)).is_ok_and(|ready| ready > 0)
}

fn borrow<'a>(log: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number is only given to fstat, poll and write, which fail where it is not open. It is borrowed anew each
    // time because its owner may reopen the log under the same number.
    unsafe { BorrowedFd::borrow_raw(log) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_with_a_line() {
        assert_eq!(piece(b"a\nb"), b"a\nb");
        let lines = "0123456\n".repeat(1000);
        assert_eq!(piece(lines.as_bytes()).len(), PIECE);
        let lines = "012345678\n".repeat(1000);
        assert_eq!(piece(lines.as_bytes()).len(), PIECE / 10 * 10);
        assert_eq!(piece("x".repeat(9000).as_bytes()).len(), PIECE);
    }
}
