//! The reports of a worker to its supervisor: single bytes over a pipe.
//!
//! Python declares the same bytes; a test compares the two.

use std::os::fd::OwnedFd;

/// A call does not return, although it was interrupted.
pub const STUCK: u8 = b'S';
/// `max_requests` were answered.
pub const SPENT: u8 = b'R';
/// A TERM came to this process; the supervisor decides what follows.
pub const ASKED: u8 = b'T';
/// All threads are in the application, and a client waits.
pub const OVERLOADED: u8 = b'P';
/// The listeners are closed.
pub const CLOSED: u8 = b'C';
/// This byte plus a number from 1 to 100: how busy the threads were in the last second, in percent.
pub const LOAD: u8 = 128;

/// All of these, with the names that Python has for them.
pub const REPORTS: [(&str, u8); 6] = [
    ("STUCK", STUCK),
    ("SPENT", SPENT),
    ("ASKED", ASKED),
    ("OVERLOADED", OVERLOADED),
    ("CLOSED", CLOSED),
    ("LOAD", LOAD),
];

/// The report pipe of a worker; a process without a supervisor has none.
#[derive(Debug)]
pub struct ReportPipe(Option<OwnedFd>);

impl ReportPipe {
    /// With the writing end of the pipe, which does not block.
    pub fn new(pipe: Option<OwnedFd>) -> Self {
        Self(pipe)
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Tell the supervisor, if there is one.
    pub fn tell(&self, byte: u8) {
        if let Some(pipe) = &self.0 {
            // The supervisor may have been killed.
            let _ = rustix::io::write(pipe, &[byte]);
        }
    }
}
